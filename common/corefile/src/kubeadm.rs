//! The Corefiles that kubeadm writes, by Kubernetes minor.
//!
//! Compared word by word with nothing left open but the cluster's domain: a file with another upstream or one more line
//! is somebody's own and not a default.

use crate::node::DirectiveNode;
use crate::tree::{Corefile, Directive};

/// A Corefile that kubeadm wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KubeadmDefault {
    /// First minor of Kubernetes 1 that wrote it.
    pub first_minor: u16,
    /// Last minor that wrote it; none if the newest still does.
    pub last_minor: Option<u16>,
    /// The cluster's domain in it.
    pub domain: String,
}

/// Words of each default, `;` for the end of a line. (1.32 wrote one of the last two; its patch releases differ.)
const DEFAULTS: [(u16, Option<u16>, &str); 8] = [
    (
        11,
        Some(11),
        "errors ; health ; kubernetes DOMAIN in-addr.arpa ip6.arpa { pods insecure ; upstream ; fallthrough in-addr.arpa \
         ip6.arpa ; } ; prometheus :9153 ; proxy . /etc/resolv.conf ; cache 30 ; reload ;",
    ),
    (
        12,
        Some(13),
        "errors ; health ; kubernetes DOMAIN in-addr.arpa ip6.arpa { pods insecure ; upstream ; fallthrough in-addr.arpa \
         ip6.arpa ; } ; prometheus :9153 ; proxy . /etc/resolv.conf ; cache 30 ; loop ; reload ; loadbalance ;",
    ),
    (
        14,
        Some(15),
        "errors ; health ; kubernetes DOMAIN in-addr.arpa ip6.arpa { pods insecure ; upstream ; fallthrough in-addr.arpa \
         ip6.arpa ; ttl 30 ; } ; prometheus :9153 ; forward . /etc/resolv.conf ; cache 30 ; loop ; reload ; loadbalance ;",
    ),
    (
        14,
        Some(15),
        "errors ; health ; kubernetes DOMAIN in-addr.arpa ip6.arpa { pods insecure ; upstream ; fallthrough in-addr.arpa \
         ip6.arpa ; } ; prometheus :9153 ; forward . /etc/resolv.conf ; cache 30 ; loop ; reload ; loadbalance ;",
    ),
    (
        16,
        Some(16),
        "errors ; health ; ready ; kubernetes DOMAIN in-addr.arpa ip6.arpa { pods insecure ; fallthrough in-addr.arpa \
         ip6.arpa ; ttl 30 ; } ; prometheus :9153 ; forward . /etc/resolv.conf ; cache 30 ; loop ; reload ; loadbalance ;",
    ),
    (
        17,
        Some(18),
        "errors ; health { lameduck 5s ; } ; ready ; kubernetes DOMAIN in-addr.arpa ip6.arpa { pods insecure ; fallthrough \
         in-addr.arpa ip6.arpa ; ttl 30 ; } ; prometheus :9153 ; forward . /etc/resolv.conf ; cache 30 ; loop ; reload ; \
         loadbalance ;",
    ),
    (
        19,
        Some(32),
        "errors ; health { lameduck 5s ; } ; ready ; kubernetes DOMAIN in-addr.arpa ip6.arpa { pods insecure ; fallthrough \
         in-addr.arpa ip6.arpa ; ttl 30 ; } ; prometheus :9153 ; forward . /etc/resolv.conf { max_concurrent 1000 ; } ; \
         cache 30 ; loop ; reload ; loadbalance ;",
    ),
    (
        32,
        None,
        "errors ; health { lameduck 5s ; } ; ready ; kubernetes DOMAIN in-addr.arpa ip6.arpa { pods insecure ; fallthrough \
         in-addr.arpa ip6.arpa ; ttl 30 ; } ; prometheus :9153 ; forward . /etc/resolv.conf { max_concurrent 1000 ; } ; \
         cache 30 { disable success DOMAIN ; disable denial DOMAIN ; } ; loop ; reload ; loadbalance ;",
    ),
];

impl Corefile {
    /// Which kubeadm wrote this file, if one did and nobody has changed a word since. White space and comments do not
    /// count.
    ///
    /// ```
    /// let text = ".:53 {\n errors\n health\n ready\n kubernetes k8s.local in-addr.arpa ip6.arpa {\n pods insecure\n \
    ///     fallthrough in-addr.arpa ip6.arpa\n ttl 30\n }\n prometheus :9153\n forward . /etc/resolv.conf\n cache 30\n \
    ///     loop\n reload\n loadbalance\n}\n";
    /// let default = corefile::parse(text)?.kubeadm_default().unwrap();
    /// assert_eq!((default.first_minor, default.domain.as_str()), (16, "k8s.local"));
    /// assert!(corefile::parse(&text.replace("/etc/resolv.conf", "10.0.0.2"))?.kubeadm_default().is_none());
    /// # Ok::<(), corefile::ParseError>(())
    /// ```
    pub fn kubeadm_default(&self) -> Option<KubeadmDefault> {
        let [crate::node::Item::Server(node)] = self.items.as_slice() else { return None };
        let server = self.servers().next()?;
        if server.keys() != [".:53"] || !server.has_braces() {
            return None;
        }
        let domain = server.directive("kubernetes")?.args().first().copied()?;
        let words = self.words_of(&node.entries);
        let (first_minor, last_minor, _) = DEFAULTS.into_iter().find(|(_, _, default)| {
            let expected = default.split_whitespace().map(|word| if word == "DOMAIN" { domain } else { word });
            expected.eq(words.iter().map(String::as_str))
        })?;
        Some(KubeadmDefault { first_minor, last_minor, domain: domain.to_owned() })
    }

    fn words_of(&self, nodes: &[DirectiveNode]) -> Vec<String> {
        let mut words = Vec::new();
        for node in nodes {
            let line = Directive { file: self, node };
            words.push(line.name().to_owned());
            words.extend(line.args().iter().map(|&word| word.to_owned()));
            for block in line.blocks() {
                words.push("{".to_owned());
                words.extend(self.words_of(&block.entries));
                words.push("}".to_owned());
            }
            words.push(";".to_owned());
        }
        words
    }
}
