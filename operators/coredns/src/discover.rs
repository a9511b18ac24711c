//! Finding the cluster's domain and the address of its DNS Service, from those who know best downwards.
//!
//! Neither is ever assumed in silence: an address that cannot be found is an error, and a domain that cannot be found
//! is assumed with a warning.

use std::net::IpAddr;

use addon_framework::core::{Finding, Object, ObjectKey, Observed, yaml};
use serde_json::Value;

use crate::api::CoreDNSSpec;

/// The domain of clusters whose installer left no trace of another.
const USUAL_DOMAIN: &str = "cluster.local";
/// The name of the DNS Service, which everything in a cluster relies on.
pub const SERVICE: &str = "kube-dns";
/// How long until an address that someone else holds is looked up again, in seconds.
const TAKEN_RETRY: u32 = 5;

/// What was found, and what is to be said of it.
#[derive(Debug)]
pub struct Cluster {
    /// The cluster's domain, without a dot at its end.
    pub domain: String,
    /// The address of the DNS Service.
    pub dns_ip: String,
    /// Warnings and notes.
    pub findings: Vec<Finding>,
}

/// Why nothing can be done, and when to look again.
#[derive(Debug)]
pub struct Unknown {
    /// What is missing or contradictory.
    pub finding: Box<Finding>,
    /// When to look again although nothing happens, in seconds.
    pub again_in: Option<u32>,
}

impl From<Box<Finding>> for Unknown {
    fn from(finding: Box<Finding>) -> Self {
        Self { finding, again_in: None }
    }
}

/// Finds domain and address.
pub fn cluster(spec: &CoreDNSSpec, observed: &Observed) -> Result<Cluster, Unknown> {
    let mut findings = Vec::new();
    let domain = domain(spec, observed, &mut findings)?;
    let dns_ip = dns_ip(spec, observed)?;
    kubelet_agrees(observed, &dns_ip, &mut findings);
    Ok(Cluster { domain, dns_ip, findings })
}

/// The objects to look up for [`cluster`], given what is known.
pub fn lookups(spec: &CoreDNSSpec, observed: &Observed) -> Vec<ObjectKey> {
    if service(observed).is_some() {
        return Vec::new();
    }
    let mut keys = Vec::new();
    if spec.dns_ip.is_none() && kubeadm_subnet(observed).is_none() {
        keys.push(service_cidr());
        if matches!(observed.lookups.get(&service_cidr()), Some(None)) {
            keys.push(api_service());
        }
    }
    if let Ok(Some(address)) = wanted_ip(spec, observed) {
        keys.push(ip_address(&address.to_string()));
    }
    keys
}

fn service(observed: &Observed) -> Option<&Object> {
    observed.core("Service", SERVICE)
}

fn service_cidr() -> ObjectKey {
    ObjectKey::new("networking.k8s.io", "ServiceCIDR", "", "kubernetes")
}

fn api_service() -> ObjectKey {
    ObjectKey::new("", "Service", "default", "kubernetes")
}

fn ip_address(address: &str) -> ObjectKey {
    ObjectKey::new("networking.k8s.io", "IPAddress", "", address)
}

/// A YAML document kept in a ConfigMap.
fn document(observed: &Observed, config_map: &str, key: &str) -> Option<Value> {
    let text = observed.core("ConfigMap", config_map)?.value()["data"].get(key)?.as_str()?;
    yaml::from_str(text).ok()
}

fn kubeadm(observed: &Observed) -> Option<Value> {
    document(observed, "kubeadm-config", "ClusterConfiguration")
}

fn kubelet(observed: &Observed) -> Option<Value> {
    document(observed, "kubelet-config", "kubelet")
}

fn domain(spec: &CoreDNSSpec, observed: &Observed, findings: &mut Vec<Finding>) -> Result<String, Box<Finding>> {
    let clean = |text: &str| text.trim_end_matches('.').to_ascii_lowercase();
    let read = |document: Option<Value>, pointer: &str| {
        document.and_then(|it| it.pointer(pointer).and_then(Value::as_str).map(clean)).filter(|it| !it.is_empty())
    };
    let known = [
        ("kubeadm's ConfigMap kubeadm-config", read(kubeadm(observed), "/networking/dnsDomain")),
        ("kubelet's ConfigMap kubelet-config", read(kubelet(observed), "/clusterDomain")),
        ("the Corefile in ConfigMap coredns", served_domain(observed)),
    ];
    let known: Vec<(&str, String)> = known.into_iter().filter_map(|(source, it)| Some((source, it?))).collect();
    if let Some(asked) = &spec.dns_domain {
        let asked = clean(asked);
        if !is_domain(&asked) {
            return Err(Finding::error("BadDomain", format!("`{asked}` is no domain name"))
                .field(".spec.dnsDomain")
                .into());
        }
        if let Some((source, other)) = known.iter().find(|(_, domain)| *domain != asked) {
            return Err(Finding::error(
                "DomainClash",
                format!("it is {asked}, and {source} says {other}, which the pods' resolv.conf follows"),
            )
            .field(".spec.dnsDomain")
            .remedy("leave it out, or correct the other")
            .into());
        }
        return Ok(asked);
    }
    let [(first, domain), others @ ..] = &known[..] else {
        findings.push(
            Finding::warning(
                "DomainAssumed",
                format!("nothing in the cluster tells its domain; {USUAL_DOMAIN} is assumed"),
            )
            .field(".spec.dnsDomain")
            .remedy("set it"),
        );
        return Ok(USUAL_DOMAIN.to_owned());
    };
    if let Some((source, other)) = others.iter().find(|(_, other)| other != domain) {
        findings.push(
            Finding::warning("DomainClash", format!("{first} says {domain}, and {source} says {other}"))
                .remedy(format!("{domain} is used; set spec.dnsDomain once they agree")),
        );
    }
    Ok(domain.clone())
}

/// The domain that an earlier installer's Corefile serves.
fn served_domain(observed: &Observed) -> Option<String> {
    let text = observed.core("ConfigMap", "coredns")?.value()["data"]["Corefile"].as_str()?;
    corefile::parse(text).ok()?.cluster_domain()
}

/// Labels of letters, digits and dashes.
fn is_domain(text: &str) -> bool {
    text.len() <= 253
        && text.split('.').all(|label| {
            (1..=63).contains(&label.len())
                && label.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
                && !label.starts_with('-')
                && !label.ends_with('-')
        })
}

fn dns_ip(spec: &CoreDNSSpec, observed: &Observed) -> Result<String, Unknown> {
    if let Some(service) = service(observed) {
        let address = service.text("/spec/clusterIP").to_owned();
        if address.parse::<IpAddr>().is_err() {
            let finding = Finding::error("DnsIpUnknown", format!("it has no address, and pods need one: `{address}`"));
            let finding = finding.object(service.key()).field(".spec.clusterIP");
            return Err(
                Box::new(finding.remedy("delete it; it is made anew with the address that kubelets give")).into()
            );
        }
        let same = |asked: &String| asked.parse::<IpAddr>().ok() == address.parse().ok();
        if let Some(asked) = spec.dns_ip.as_ref().filter(|asked| !same(asked)) {
            let holder = format!("Service {}/{SERVICE} has {address}, which every pod uses", observed.namespace);
            let finding = Finding::error("DnsIpClash", format!("it is {asked}, and {holder}"));
            let finding = finding.field(".spec.dnsIP").remedy(format!("set {address}, or leave it out"));
            return Err(Box::new(finding).into());
        }
        return Ok(address);
    }
    let address = wanted_ip(spec, observed)?.ok_or_else(|| -> Box<Finding> {
        Finding::error("DnsIpUnknown", "nothing in the cluster tells its Service addresses")
            .field(".spec.dnsIP")
            .remedy("set it to the address that kubelets give to pods")
            .into()
    })?;
    let address = address.to_string();
    if let Some(given) = given_by_kubelets(observed).filter(|given| spec.dns_ip.is_none() && *given != address) {
        let message = format!("kubelets give {given} to pods, and the cluster's range tells {address}");
        let finding = Finding::error("KubeletDnsMismatch", message).field(".spec.dnsIP");
        return Err(Box::new(finding.remedy(format!("set it, to {given} if pods are to find it"))).into());
    }
    match observed.get(&ip_address(&address)) {
        Some(taken) => {
            let parent = |field: &str| taken.text(&format!("/spec/parentRef/{field}")).to_owned();
            let holder = format!("Service {}/{}", parent("namespace"), parent("name"));
            let finding = Finding::error("DnsIpTaken", format!("{holder} has the cluster's DNS address {address}"))
                .object(holder)
                .field(".spec.clusterIP")
                .remedy("delete that Service, or set spec.dnsIP to the address that kubelets give to pods");
            Err(Unknown { finding: Box::new(finding), again_in: Some(TAKEN_RETRY) })
        }
        None => Ok(address),
    }
}

/// The address to ask for, where there is no Service yet; `None` where nothing tells it.
fn wanted_ip(spec: &CoreDNSSpec, observed: &Observed) -> Result<Option<IpAddr>, Box<Finding>> {
    if let Some(asked) = &spec.dns_ip {
        return asked.parse().map(Some).map_err(|_| {
            let finding = Finding::error("BadDnsIp", format!("`{asked}` is no IP address"));
            finding.field(".spec.dnsIP").remedy("correct it, or leave it out").into()
        });
    }
    if let Some(subnet) = kubeadm_subnet(observed) {
        return tenth(&subnet, "kubeadm's ConfigMap kubeadm-config").map(Some);
    }
    if let Some(cidr) = observed.get(&service_cidr()) {
        let first = cidr.value()["spec"]["cidrs"][0].as_str().unwrap_or_default();
        return tenth(first, "ServiceCIDR kubernetes").map(Some);
    }
    // The API server's own Service has the first address.
    let first = observed.get(&api_service()).and_then(|service| service.text("/spec/clusterIP").parse().ok());
    Ok(first.and_then(|first| plus(first, 9)))
}

fn kubeadm_subnet(observed: &Observed) -> Option<String> {
    let subnets = kubeadm(observed)?.pointer("/networking/serviceSubnet")?.as_str()?.to_owned();
    subnets.split(',').next().map(|first| first.trim().to_owned()).filter(|first| !first.is_empty())
}

/// The tenth address of a range: where kubeadm puts the DNS Service.
fn tenth(cidr: &str, source: &str) -> Result<IpAddr, Box<Finding>> {
    let bad = |problem: &str| -> Box<Finding> {
        Finding::error("BadServiceCidr", format!("{source} says `{cidr}`, {problem}"))
            .field(".spec.dnsIP")
            .remedy("set it to the address that kubelets give to pods")
            .into()
    };
    let (address, length) = cidr.split_once('/').ok_or_else(|| bad("which is no CIDR"))?;
    let address: IpAddr = address.parse().map_err(|_| bad("which is no CIDR"))?;
    let length: u32 = length.parse().map_err(|_| bad("which is no CIDR"))?;
    let bits = if address.is_ipv4() { 32 } else { 128 };
    if length > bits {
        return Err(bad("which is no CIDR"));
    }
    if bits - length < 4 {
        return Err(bad("which has no tenth address"));
    }
    let start = match address {
        IpAddr::V4(v4) => IpAddr::V4((u32::from(v4) & u32::MAX.checked_shl(bits - length).unwrap_or(0)).into()),
        IpAddr::V6(v6) => IpAddr::V6((u128::from(v6) & u128::MAX.checked_shl(bits - length).unwrap_or(0)).into()),
    };
    plus(start, 10).ok_or_else(|| bad("which has no tenth address"))
}

/// An address further on, carried across bytes.
fn plus(address: IpAddr, count: u8) -> Option<IpAddr> {
    match address {
        IpAddr::V4(v4) => u32::from(v4).checked_add(count.into()).map(|sum| IpAddr::V4(sum.into())),
        IpAddr::V6(v6) => u128::from(v6).checked_add(count.into()).map(|sum| IpAddr::V6(sum.into())),
    }
}

/// The address that kubelets hand to pods, but for a link-local one: that is NodeLocal DNS.
fn given_by_kubelets(observed: &Observed) -> Option<String> {
    let given = kubelet(observed)?["clusterDNS"][0].as_str()?.to_owned();
    let is_local = given.parse::<IpAddr>().is_ok_and(|ip| matches!(ip, IpAddr::V4(v4) if v4.is_link_local()));
    (!is_local).then_some(given)
}

/// Kubelets and Service agree about the address.
fn kubelet_agrees(observed: &Observed, dns_ip: &str, findings: &mut Vec<Finding>) {
    if let Some(given) = given_by_kubelets(observed).filter(|given| given != dns_ip) {
        findings.push(
            Finding::warning(
                "KubeletDnsMismatch",
                format!("kubelets give {given} to pods, and the DNS Service has {dns_ip}"),
            )
            .object(format!("ConfigMap {}/kubelet-config", observed.namespace))
            .field(".clusterDNS")
            .remedy(format!("set {dns_ip} there and restart the kubelets")),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tenth_address_is_carried_across_bytes_and_families() {
        for (cidr, address) in [
            ("10.96.0.0/12", "10.96.0.10"),
            ("10.0.0.250/24", "10.0.0.10"),
            ("10.0.0.248/28", "10.0.0.250"),
            ("fd00::/108", "fd00::a"),
            ("fd00:0:0:0:0:0:0:fff0/124", "fd00::fffa"),
            ("0.0.0.0/0", "0.0.0.10"),
        ] {
            assert_eq!(tenth(cidr, "test").unwrap().to_string(), address, "{cidr}");
        }
        assert_eq!(plus("10.0.0.250".parse().unwrap(), 9), Some("10.0.1.3".parse().unwrap()));
    }

    #[test]
    fn a_range_without_a_tenth_address_is_an_error() {
        for cidr in ["10.0.0.0/29", "10.0.0.0", "fd00::/125", "x/12", "10.0.0.0/33", "", "10.0.0.0/-1"] {
            assert_eq!(tenth(cidr, "test").unwrap_err().code, "BadServiceCidr", "{cidr}");
        }
    }
}
