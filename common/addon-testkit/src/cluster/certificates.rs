//! The cluster's own authority: one CA, and a certificate for everyone who serves or asks. Nothing outlives the cluster.

use std::{fs, io::Write as _, os::unix::fs::OpenOptionsExt as _, path::Path};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};

use super::error::ClusterError;

/// Client certificates: file name, user (common name), group (organisation).
const CLIENTS: &[(&str, &str, Option<&str>)] = &[
    ("admin", "kubernetes-admin", Some("system:masters")),
    ("controller-manager", "system:kube-controller-manager", None),
    ("scheduler", "system:kube-scheduler", None),
    // The API server's own identity towards kubelets (kubeadm's name and group for it).
    ("apiserver-kubelet-client", "kube-apiserver-kubelet-client", Some("kubeadm:cluster-admins")),
];

/// Writes `ca`, `apiserver`, the client certificates and the service-account key pair as `.crt`, `.key` and `.pub`.
pub(super) fn write(folder: &Path, server_names: Vec<String>) -> Result<(), ClusterError> {
    let mut params = CertificateParams::default();
    params.distinguished_name = name("addon-testkit", None);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
    let ca = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
    write_file(&folder.join("ca.crt"), &ca.pem())?;
    write_file(&folder.join("ca.key"), &ca.key().serialize_pem())?;

    let mut server = CertificateParams::new(server_names)?;
    server.distinguished_name = name("kube-apiserver", None);
    server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    sign(folder, "apiserver", server, &ca)?;

    for (file, user, group) in CLIENTS {
        let mut client = CertificateParams::default();
        client.distinguished_name = name(user, *group);
        client.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        sign(folder, file, client, &ca)?;
    }

    let service_accounts = KeyPair::generate()?;
    write_file(&folder.join("service-accounts.key"), &service_accounts.serialize_pem())?;
    write_file(&folder.join("service-accounts.pub"), &service_accounts.public_key_pem())
}

fn name(user: &str, group: Option<&str>) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    if let Some(group) = group {
        name.push(DnType::OrganizationName, group);
    }
    name.push(DnType::CommonName, user);
    name
}

fn sign(
    folder: &Path,
    file: &str,
    mut params: CertificateParams,
    ca: &CertifiedIssuer<'_, KeyPair>,
) -> Result<(), ClusterError> {
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.use_authority_key_identifier_extension = true;
    let key = KeyPair::generate()?;
    let certificate = params.signed_by(&key, ca)?;
    write_file(&folder.join(format!("{file}.crt")), &certificate.pem())?;
    write_file(&folder.join(format!("{file}.key")), &key.serialize_pem())
}

/// Writes a file that only its owner may read.
pub(crate) fn write_file(path: &Path, text: &str) -> Result<(), ClusterError> {
    fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(ClusterError::io("write", path))
}
