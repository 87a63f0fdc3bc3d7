//! Who may look, as the page has it: by a token, and no further than kubectl.

use serde_json::Value;

use super::Look;
use crate::harness;

#[tokio::test]
async fn a_user_of_one_namespace_signs_in_and_sees_that_one_alone() {
    let cluster = harness::cluster().await;
    let (mine, other) = (cluster.namespace("mine").await, cluster.namespace("other").await);
    let ns = mine.name();
    cluster.kubectl(&["create", "serviceaccount", "jane", "-n", ns]).await;
    let rights = ["--verb=get,list,watch", "--resource=configmaps", "-n", ns];
    cluster.kubectl(&[&["create", "role", "reader"], &rights[..]].concat()).await;
    let account = format!("--serviceaccount={ns}:jane");
    cluster.kubectl(&["create", "rolebinding", "jane", "-n", ns, "--role=reader", &account]).await;
    let token = cluster.kubectl(&["create", "token", "jane", "-n", ns]).await;

    let watch = format!("namespaces = [\"{ns}\", \"{other}\"]\ninclude = [\"v1/configmaps\", \"v1/secrets\"]");
    let look = Look::with(cluster.kubeconfig(), &watch, "auth = \"token\"\n").await;
    let browser = &look.browser;
    for ns in [ns, other.name()] {
        cluster.kubectl(&["create", "configmap", "before", "-n", ns]).await;
        cluster.kubectl(&["create", "secret", "generic", "hidden", "-n", ns]).await;
    }

    look.open("").await;
    browser.until("document.querySelector('#token')", "to be asked for a token").await;
    assert!(browser.texts(".feed .ev").await.is_empty(), "nothing is shown to strangers");
    sign_in(&look, "nonsense").await;
    browser.until("document.querySelector('.sign-in .said').innerText.length > 8", "a refusal").await;
    sign_in(&look, token.trim()).await;
    look.row(&["ConfigMap", ns, "before"]).await;
    assert!(browser.text("#user").await.contains(&format!("{ns}:jane")));
    browser.until("document.querySelector('#live').dataset.state === 'live'", "the tail to be live").await;

    cluster.kubectl(&["create", "configmap", "later", "-n", other.name()]).await;
    cluster.kubectl(&["create", "secret", "generic", "later", "-n", ns]).await;
    cluster.kubectl(&["create", "configmap", "later", "-n", ns]).await;
    look.row(&["ConfigMap", ns, "later"]).await;
    let all = browser.text("#main").await;
    assert!(!all.contains(other.name()) && !all.contains("Secret"), "{all}");

    // A link to what may not be seen says so, and a new tab knows nothing of the token.
    look.open(&format!("?object=core/v1/configmaps/{other}/before")).await;
    browser.until("document.querySelector('.trouble')", "a refusal").await;
    assert!(!browser.text("#main").await.contains("apiVersion"));
    let kept: (bool, bool) = browser
        .eval("[JSON.stringify(sessionStorage).includes('eyJ'), JSON.stringify(localStorage).includes('eyJ')]")
        .await;
    assert_eq!(kept, (true, false));
    browser.click("#user button").await;
    browser.until("document.querySelector('#token')", "to be asked again").await;
    assert!(browser.requests().iter().all(|url| url.starts_with(&look.origin) || url == "about:blank"));
}

async fn sign_in(look: &Look, token: &str) {
    look.browser
        .eval::<Value>("document.querySelector('#token').focus(), document.querySelector('#token').select(), null")
        .await;
    look.browser.write(token).await;
    look.browser.press("Enter").await;
}
