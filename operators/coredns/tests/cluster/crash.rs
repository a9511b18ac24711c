//! The operator may end at any point: what it was about to do is planned anew.

use addon_testkit::proxy::Proxy;
use anyhow::Result;
use serde_json::json;

use crate::bed::Bed;

/// More than a clean install has writes.
const MOST_WRITES: usize = 30;

#[tokio::test]
async fn killed_after_any_write_of_an_install_it_ends_the_same() -> Result<()> {
    let clean = {
        let bed = Bed::new().await?;
        let _operator = bed.operator().await?;
        bed.create(json!({})).await?;
        bed.current().await?;
        bed.state().await?
    };
    for writes in 1..MOST_WRITES {
        let bed = Bed::new().await?;
        bed.create(json!({})).await?;
        let kubeconfig = bed.kubeconfig().await?;
        let proxy = Proxy::start(&kubeconfig).await?;
        let hold = proxy.hold_after_writes(writes);
        let operator = bed.operator_with(proxy.kubeconfig(), &[])?;
        let finished = tokio::select! {
            () = hold.reached() => false,
            result = bed.current() => result.map(|_| true)?,
        };
        operator.kill().await?;
        let _operator = bed.operator_with(&kubeconfig, &[])?;
        bed.current().await?;
        assert_eq!(bed.state().await?, clean, "killed after write {writes}");
        if finished {
            assert!(writes > 6, "an install has at least its six objects to write, and was done after {writes}");
            return Ok(());
        }
    }
    panic!("an install has less than {MOST_WRITES} writes");
}
