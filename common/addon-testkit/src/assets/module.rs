//! Go modules made for the recipes: a go.mod and one source file, in a work folder of the cache.
//!
//! The names and the text decide whether Go's own build cache is hit again, so they stay stable.

use std::{fs, path::Path};

use serde::Deserialize;

use super::{
    error::AssetError,
    golang::Go,
    recipe::{RECIPES, Source, Version},
};

const KUBERNETES: &str = "k8s.io/kubernetes";

/// Written last: a folder that has it, with the same text, is complete.
const STAMP: &str = "stamp";

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Download {
    go_mod: Option<std::path::PathBuf>,
    error: Option<String>,
}

/// Makes the module that builds the commands of one Kubernetes version, or leaves it if it is complete.
pub(super) fn kubernetes(go: &Go<'_>, folder: &Path, version: &Version) -> Result<(), AssetError> {
    let mut imports = RECIPES
        .iter()
        .filter_map(|recipe| match recipe.source {
            Source::Kubernetes { package } => Some(format!("\t_ \"{package}\"\n")),
            Source::Wrapped { .. } | Source::Installed { .. } => None,
        })
        .collect::<Vec<_>>();
    imports.sort();
    let tools = format!("//go:build tools\n\npackage tools\n\nimport (\n{})\n", imports.concat());
    generate(go, folder, "assets", KUBERNETES, version, ("tools.go", &tools), |go_mod| staging(go_mod, version))
}

/// Makes the module that wraps a library into a command.
pub(super) fn wrapped(
    go: &Go<'_>,
    folder: &Path,
    name: &str,
    source: (&str, &str, &str),
    version: &Version,
) -> Result<(), AssetError> {
    let (module, import, call) = source;
    let main = format!("package main\n\nimport (\n\t\"os\"\n\n\t\"{import}\"\n)\n\nfunc main() {{ {call} }}\n");
    generate(go, folder, name, module, version, ("main.go", &main), |_| String::new())
}

fn generate(
    go: &Go<'_>,
    folder: &Path,
    name: &str,
    module: &str,
    version: &Version,
    (file, text): (&str, &str),
    replaces: impl FnOnce(&str) -> String,
) -> Result<(), AssetError> {
    let stamp = format!("{module} {version}\n{text}");
    if fs::read_to_string(folder.join(STAMP)).is_ok_and(|there| there == stamp) {
        return Ok(());
    }
    let write = |file: &str, text: &str| {
        let path = folder.join(file);
        fs::write(&path, text).map_err(AssetError::io("write", path))
    };
    fs::create_dir_all(folder).map_err(AssetError::io("create", folder))?;
    let theirs = go_mod_of(go, folder, module, version)?;
    let language = directive(&theirs, "go").unwrap_or("1.24");
    let replaces = replaces(&theirs);
    // A left-over go.sum would be trusted; a half-written one is worse than none.
    let _ = fs::remove_file(folder.join("go.sum"));
    write("go.mod", &format!("module {name}\n\ngo {language}\n\nrequire {module} v{version}\n{replaces}"))?;
    write(file, text)?;
    go.run(folder, &["mod", "tidy"], "resolving modules")?;
    write(STAMP, &stamp)
}

/// The text of a module's own go.mod, which lists what it replaces.
fn go_mod_of(go: &Go<'_>, folder: &Path, module: &str, version: &Version) -> Result<String, AssetError> {
    let wanted = format!("{module}@v{version}");
    let output = go.output(folder, &["mod", "download", "-json", &wanted], "fetching the module")?;
    // It prints JSON also when it fails, and the cause is in there.
    match serde_json::from_str(&output.stdout) {
        Ok(Download { go_mod: Some(path), .. }) => fs::read_to_string(&path).map_err(AssetError::io("read", path)),
        Ok(Download { error: Some(cause), .. }) => Err(go.not_delivered(&wanted, &cause)),
        _ => Err(go.failed(folder, &["mod", "download", &wanted], &format!("{}\n{}", output.stderr, output.stdout))),
    }
}

fn directive<'a>(go_mod: &'a str, keyword: &str) -> Option<&'a str> {
    go_mod.lines().find_map(|line| line.strip_prefix(keyword)?.strip_prefix(' ')).map(str::trim)
}

/// The replaces for staging modules: `k8s.io/api => ./staging/src/k8s.io/api` becomes the published module of that
/// version. The list differs from minor to minor, hence it is read and not written down.
fn staging(go_mod: &str, version: &Version) -> String {
    let modules = go_mod.lines().filter_map(|line| {
        let (module, target) = line.trim().split_once(" => ")?;
        target.starts_with("./staging/").then_some(module.strip_prefix("replace ").unwrap_or(module).trim())
    });
    let Version { minor, patch, .. } = version;
    let lines: Vec<_> = modules.map(|module| format!("replace {module} => {module} v0.{minor}.{patch}\n")).collect();
    lines.concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GO_MOD: &str = "module k8s.io/kubernetes\n\ngo 1.26.0\n\ngodebug default=go1.26\n\nrequire (\n\tk8s.io/api v0.0.0\n)\n\n\
        replace (\n\tk8s.io/api => ./staging/src/k8s.io/api\n\texample.com/x => example.com/y v1.0.0\n)\n\n\
        replace k8s.io/kms => ./staging/src/k8s.io/kms\n";

    #[test]
    fn staging_modules_are_replaced_by_their_published_version_and_others_are_not() {
        let version = Version { major: 1, minor: 37, patch: 2 };
        assert_eq!(
            staging(GO_MOD, &version),
            "replace k8s.io/api => k8s.io/api v0.37.2\nreplace k8s.io/kms => k8s.io/kms v0.37.2\n"
        );
    }

    #[test]
    fn the_go_line_is_read_and_not_mixed_up_with_godebug() {
        assert_eq!(directive(GO_MOD, "go"), Some("1.26.0"));
    }
}
