//! The data file against facts that were read from the sources independently of it.

#![allow(clippy::unwrap_used)]

use corefile::{Knowledge, Uses, Version};

fn version(text: &str) -> Version {
    Version::parse(text).unwrap()
}

#[test]
fn every_release_has_the_plugins_of_its_plugin_cfg() {
    let knowledge = Knowledge::get();
    let mut releases = Vec::new();
    for line in include_str!("fixtures/plugins-by-release.txt").lines().filter(|line| !line.starts_with('#')) {
        let (release, names) = line.split_once(": ").unwrap();
        let release = version(release);
        let mut ours: Vec<&str> = knowledge
            .plugins()
            .iter()
            .filter(|plugin| plugin.lifetime.covers(release))
            .map(|plugin| plugin.name.as_str())
            .collect();
        ours.sort_unstable();
        assert_eq!(ours.join(" "), names, "{release}");
        releases.push(release);
    }
    assert_eq!(knowledge.releases(), releases);
}

#[test]
fn properties_came_when_they_came() {
    for (plugin, property, before, since) in [
        ("forward", "max_concurrent", "1.6.7", "1.6.9"),
        ("forward", "next", "1.11.3", "1.11.4"),
        ("forward", "failfast_all_unhealthy_upstreams", "1.12.0", "1.12.1"),
        ("forward", "source_address", "1.14.5", "1.14.6"),
        ("cache", "disable", "1.9.3", "1.9.4"),
        ("cache", "keepttl", "1.10.0", "1.10.1"),
        ("kubernetes", "startup_timeout", "1.12.2", "1.12.3"),
        ("kubernetes", "zonal", "1.14.6", "1.14.7"),
        ("ready", "monitor", "1.12.1", "1.12.2"),
        ("hosts", "fallthrough_unsupported", "1.14.6", "1.14.7"),
        ("errors", "stacktrace", "1.9.2", "1.9.3"),
        ("template", "expr", "1.14.7", "1.15.0"),
        ("acl", "drop", "1.10.0", "1.10.1"),
    ] {
        let lifetime = Knowledge::get().plugin(plugin).unwrap().property(property).unwrap().lifetime;
        assert!(!lifetime.covers(version(before)), "{plugin} {property} at {before}");
        assert!(lifetime.covers(version(since)), "{plugin} {property} at {since}");
        assert!(lifetime.covers(Knowledge::get().newest()));
    }
}

#[test]
fn properties_went_when_they_went() {
    for (plugin, property, last, gone) in [
        ("kubernetes", "upstream", "1.6.9", "1.7.0"),
        ("kubernetes", "resyncperiod", "1.6.9", "1.7.0"),
        ("kubernetes", "transfer", "1.7.1", "1.8.0"),
        ("header", "set", "1.12.3", "1.12.4"),
    ] {
        let lifetime = Knowledge::get().plugin(plugin).unwrap().property(property).unwrap().lifetime;
        assert!(lifetime.covers(version(last)) && !lifetime.covers(version(gone)), "{plugin} {property}");
    }
}

#[test]
fn the_strict_releases_are_known() {
    let plugin = |name| Knowledge::get().plugin(name).unwrap();
    assert!(plugin("ready").is_lax(version("1.14.3")) && !plugin("ready").is_lax(version("1.14.4")));
    assert!(!plugin("ready").reads_block(version("1.12.1")) && plugin("ready").reads_block(version("1.12.2")));
    assert!(!plugin("health").is_lax(version("1.11.3")), "health has always refused unknown properties");
    assert!(plugin("any").is_unread(version("1.14.3")) && !plugin("any").is_unread(version("1.14.4")));
    assert_eq!(plugin("forward").uses_in(version("1.9.3")), Uses::Once);
    assert_eq!(plugin("forward").uses_in(version("1.9.4")), Uses::Each);
}

#[test]
fn node_cache_is_known_by_tag() {
    let knowledge = Knowledge::get();
    for (tag, inside) in
        [("1.22.13", "1.7.0"), ("1.22.14", "1.10.0"), ("1.26.7", "1.13.1"), ("1.26.8", "1.13.2"), ("1.27.0", "1.13.2")]
    {
        assert_eq!(knowledge.node_cache_coredns(version(tag)), Some(version(inside)), "{tag}");
    }
    assert_eq!(knowledge.node_cache_coredns(version("1.15.0")), None);
    assert!(knowledge.node_cache_has_plugin("template") && !knowledge.node_cache_has_plugin("kubernetes"));
    assert!(!knowledge.node_cache_has_plugin("ready"));
}

#[test]
fn defaults_of_kubernetes_that_are_bad_are_marked() {
    assert_eq!(Knowledge::get().bad_release(version("1.12.0")).unwrap().instead, version("1.12.1"));
    assert_eq!(Knowledge::get().bad_release(version("1.11.4")).unwrap().instead, version("1.12.1"));
    for good in ["1.12.1", "1.13.1", "1.14.2", "1.14.7", "1.15.0"] {
        assert!(Knowledge::get().bad_release(version(good)).is_none(), "{good}");
    }
}
