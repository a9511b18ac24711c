//! Figures as a table for people, beside those of the Go operators.

use std::fmt::Write as _;

use anyhow::Result;
use serde_json::Value;

use super::{idle::Figures, peers};

/// Rows: name in the JSON output, unit, what it is.
const ROWS: &[(&str, &str, &str)] = &[
    ("start_ms", "ms", "process start until all is applied, the resource being there"),
    ("applied_ms", "ms", "resource created until all is applied, the operator being idle"),
    ("available_ms", "ms", "resource created until its status says Available"),
    ("drift_ms", "ms", "foreign change stored until it is repaired"),
    ("requests", "", "API requests from process start until all is applied"),
    ("rss_mib", "MiB", "resident memory when idle"),
    ("peak_rss_mib", "MiB", "resident memory at its peak"),
    ("binary_mib", "MiB", "binary"),
    ("writes_60s", "", "writes in 60 s of idle, Leases not counted"),
    ("requests_per_min", "", "API requests a minute when idle, watches being renewed included"),
];

/// One table for each operator.
pub(super) fn render(all: &[Figures]) -> Result<String> {
    let mut text = String::new();
    for figures in all {
        let values = serde_json::to_value(figures)?;
        writeln!(text, "{:<17} {:>10} {:>12}", figures.operator, "here", "Go operator")?;
        for (name, unit, meaning) in ROWS {
            let value = match &values[*name] {
                Value::Null => "-".to_owned(),
                value => value.to_string(),
            };
            let peer = peers::figure(figures.operator, name).unwrap_or("-");
            writeln!(text, "{name:<17} {value:>10} {peer:>12}  {unit:<3}  {meaning}")?;
        }
    }
    text.push_str("Go operators: kubernetes-sigs/cluster-addons 83429da9 on Kubernetes 1.34.4, measured elsewhere\n");
    Ok(text)
}
