//! Judging the Corefile before anything changes, as the CoreDNS that is to run it would.

use addon_framework::core::{Finding, Object, Severity, Version, render::Rendered};
use corefile::{CheckOptions, Code, Environment, MemoryFiles, Probes};
use serde_json::Value;

/// Where the ConfigMap is mounted in the pod.
const FOLDER: &str = "/etc/coredns";

/// What is to be said of the Corefile in a rendered set. An error is what CoreDNS of that version would not start with,
/// or what would leave its pods unready for ever.
pub fn check(rendered: &[Rendered], version: &Version, dns_ip: &str) -> Vec<Finding> {
    let of = |source: &str| rendered.iter().find(|rendered| rendered.source == source).map(|it| &it.object);
    let (Some(config), Some(workload)) = (of("ConfigMap/coredns"), of("Deployment/coredns")) else { return Vec::new() };
    let text = config.text("/data/Corefile");
    let mut files = MemoryFiles::new();
    let data = config.value()["data"].as_object().into_iter().flatten();
    files.add_config_map(FOLDER, data.filter_map(|(key, value)| Some((key.as_str(), value.as_str()?))));
    let pod = Pod::of(workload);
    let Some(release) = corefile::Version::parse(&version.upstream().to_string()) else { return Vec::new() };
    let options = CheckOptions::new(release)
        .files(&files)
        .environment(pod.environment)
        .probes(pod.probes)
        .cluster_dns(dns_ip.parse().into_iter().collect());
    let report = corefile::check(&format!("{FOLDER}/Corefile"), text, &options);
    report.findings.iter().filter_map(|finding| translate(finding, config, pod.has_other_files)).collect()
}

/// What of a pod the Corefile depends on.
struct Pod {
    environment: Environment,
    probes: Probes,
    /// Whether files are mounted whose content is not known here.
    has_other_files: bool,
}

impl Pod {
    fn of(workload: &Object) -> Self {
        let spec = &workload.value()["spec"]["template"]["spec"];
        let containers = spec["containers"].as_array().into_iter().flatten();
        let container = containers.into_iter().find(|it| it["name"] == "coredns").unwrap_or(&Value::Null);
        let mut environment = Environment::new();
        for variable in container["env"].as_array().into_iter().flatten() {
            if let (Some(name), Some(value)) = (variable["name"].as_str(), variable["value"].as_str()) {
                environment.set(name, value);
            }
        }
        let port = |probe: &str| container[probe]["httpGet"]["port"].as_u64().and_then(|port| u16::try_from(port).ok());
        let probes = Probes { liveness: port("livenessProbe"), readiness: port("readinessProbe") };
        let mounts = container["volumeMounts"].as_array().map_or(0, Vec::len);
        Self { environment, probes, has_other_files: mounts > 1 }
    }
}

fn translate(finding: &corefile::Finding, config: &Object, has_other_files: bool) -> Option<Finding> {
    let severity = match finding.code {
        // The catalogue says it of the version.
        Code::BadRelease => return None,
        // The rollout would stand still, or its pods be killed again and again (aws/containers-roadmap#2152).
        Code::ProbeWithoutReady | Code::ProbeWithoutHealth => Severity::Error,
        // It may be that an imported file is in the other volume.
        Code::Syntax if has_other_files => Severity::Warning,
        _ => match finding.severity {
            corefile::Severity::Error => Severity::Error,
            corefile::Severity::Warning => Severity::Warning,
            corefile::Severity::Note => return None,
        },
    };
    let place = format!("line {}, column {}", finding.position.line, finding.position.column);
    let message = format!("Corefile, {place}: {}", finding.message);
    let number = |number: usize| u32::try_from(number).ok();
    Some(Finding {
        severity,
        line: number(finding.position.line),
        column: number(finding.position.column),
        file: Some(finding.file.clone()),
        remedy: finding.remedy.clone(),
        ..Finding::error(&format!("Corefile{}", camel_case(finding.code.as_str())), message).object(config.key())
    })
}

/// `unknown-plugin` -> `UnknownPlugin`.
fn camel_case(code: &str) -> String {
    code.split('-').fold(String::new(), |mut text, word| {
        let mut letters = word.chars();
        text.extend(letters.next().map(|first| first.to_ascii_uppercase()));
        text.extend(letters);
        text
    })
}
