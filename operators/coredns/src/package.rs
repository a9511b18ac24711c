//! The manifests and the catalogue, embedded.

use addon_framework::core::{catalog::Catalog, package::Package};

/// `packages/catalog.yaml`.
const CATALOG: &str = include_str!("../packages/catalog.yaml");

/// The files of `packages/1.11`.
const PACKAGE_1_11: &[(&str, &str)] = &[
    ("metadata/package.yaml", include_str!("../packages/1.11/metadata/package.yaml")),
    ("manifests/kustomization.yaml", include_str!("../packages/1.11/manifests/kustomization.yaml")),
    ("manifests/config.yaml", include_str!("../packages/1.11/manifests/config.yaml")),
    ("manifests/deployment.yaml", include_str!("../packages/1.11/manifests/deployment.yaml")),
    ("manifests/rbac.yaml", include_str!("../packages/1.11/manifests/rbac.yaml")),
    ("manifests/service.yaml", include_str!("../packages/1.11/manifests/service.yaml")),
];

/// Reads the embedded catalogue.
pub fn catalog() -> Result<Catalog, String> {
    Catalog::from_yaml(CATALOG).map_err(|error| format!("packages/catalog.yaml: {error}"))
}

/// Reads the embedded packages.
pub fn packages() -> Result<Vec<Package>, String> {
    [("1.11", PACKAGE_1_11)]
        .into_iter()
        .map(|(name, files)| Package::from_files(files).map_err(|error| format!("packages/{name}/{error}")))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;

    #[test]
    fn everything_embedded_can_be_read() {
        catalog().unwrap();
        assert_eq!(packages().unwrap().len(), 1);
    }

    #[test]
    fn every_file_of_the_package_is_embedded() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("packages/1.11");
        let mut on_disk: Vec<String> = ["metadata", "manifests"]
            .iter()
            .flat_map(|folder| fs::read_dir(root.join(folder)).unwrap().map(move |entry| (folder, entry.unwrap())))
            .map(|(folder, entry)| format!("{folder}/{}", entry.file_name().to_string_lossy()))
            .collect();
        let mut embedded: Vec<_> = PACKAGE_1_11.iter().map(|(path, _)| (*path).to_owned()).collect();
        on_disk.sort();
        embedded.sort();
        assert_eq!(embedded, on_disk);
    }

    #[test]
    fn every_release_that_is_offered_has_a_package() {
        let packages = packages().unwrap();
        let oldest = "1.33.0".parse().unwrap();
        for kubernetes in ["1.33.0", "1.34.4", "1.35.4", "1.36.3", "1.37.2", "1.38.0"] {
            let version = catalog().unwrap().recommended(&kubernetes.parse().unwrap()).unwrap().clone();
            assert!(packages.iter().any(|package| package.fits(&version)), "{version}");
        }
        for release in catalog()
            .unwrap()
            .releases()
            .iter()
            .filter(|release| addon_framework::core::Version::is_in(&oldest, &release.kubernetes))
        {
            assert!(packages.iter().any(|package| package.fits(&release.version)), "{}", release.version);
        }
    }
}
