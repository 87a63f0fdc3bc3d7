//! Rollouts: which changes are one row, in whatever order they are recorded.

use super::Look;
use crate::harness;

#[tokio::test]
async fn the_same_changes_are_the_same_rows_in_whatever_order_watches_record_them_live_or_read_back() {
    let cluster = harness::cluster().await;
    let namespace = cluster.namespace("rollups").await;
    let look = Look::of(cluster, &namespace).await;
    look.open("").await;
    let wrong: Vec<String> = look.browser.eval(&format!("({})()", include_str!("rollups.js"))).await;
    assert_eq!(wrong, Vec::<String>::new());
}
