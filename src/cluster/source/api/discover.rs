//! Asking the API server what it serves: aggregated discovery in two requests, and behind it the old way, one request
//! per group version.

use futures::{StreamExt, future::join, stream};
use serde::Deserialize;

use super::{Api, wire};
use crate::cluster::{
    Resource,
    source::{Discovered, Error, Unavailable},
};

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
                          application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";

/// One failing group is in [`Discovered::unavailable`]. Only a server that answers neither way is an error.
pub(super) async fn discover(api: &Api) -> Result<Discovered, Error> {
    let (core, groups) = join(root(api, "/api"), root(api, "/apis")).await;
    let mut discovered = Discovered::default();
    match (core, groups) {
        (Err(error), Err(_)) => return Err(error),
        (core, groups) => {
            for (found, group) in [(core, ""), (groups, "*")] {
                match found {
                    Ok(found) => {
                        discovered.resources.extend(found.resources);
                        discovered.unavailable.extend(found.unavailable);
                    }
                    Err(error) => discovered.unavailable.push(Unavailable {
                        group: group.into(),
                        version: String::new(),
                        reason: error.to_string(),
                    }),
                }
            }
        }
    }
    Ok(discovered)
}

/// All that is served below `/api` or `/apis`.
async fn root(api: &Api, path: &str) -> Result<Discovered, Error> {
    let body = api.fetch(path, AGGREGATED).await?;
    let answer: Answer = wire::parse(&body, "discovery")?;
    if answer.kind == "APIGroupDiscoveryList" {
        return Ok(aggregated(answer.items.unwrap_or_default()));
    }
    let mut groups = answer.groups.unwrap_or_default();
    if let Some(versions) = answer.versions {
        groups.push(Group {
            name: String::new(),
            versions: versions.into_iter().map(|version| GroupVersion { version }).collect(),
            preferred_version: None,
        });
    }
    Ok(one_by_one(api, groups).await)
}

/// Either form of answer: the aggregated one has `items`, the old ones `versions` (of `/api`) or `groups` (of `/apis`).
/// Go writes an empty list as null.
#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    kind: String,
    items: Option<Vec<Aggregated>>,
    versions: Option<Vec<String>>,
    groups: Option<Vec<Group>>,
}

#[derive(Deserialize)]
pub(super) struct Aggregated {
    #[serde(default)]
    metadata: Name,
    #[serde(default)]
    versions: Vec<AggregatedVersion>,
}

#[derive(Default, Deserialize)]
struct Name {
    #[serde(default)]
    name: String,
}

#[derive(Deserialize)]
struct AggregatedVersion {
    version: String,
    #[serde(default)]
    freshness: String,
    #[serde(default)]
    resources: Option<Vec<AggregatedResource>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AggregatedResource {
    resource: String,
    response_kind: Option<ResponseKind>,
    #[serde(default)]
    scope: String,
    #[serde(default)]
    singular_resource: String,
    #[serde(default)]
    verbs: Vec<String>,
    #[serde(default)]
    short_names: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct ResponseKind {
    #[serde(default)]
    kind: String,
}

/// Versions stand in the order of preference; subresources are nested and so never seen.
pub(super) fn aggregated(groups: Vec<Aggregated>) -> Discovered {
    let mut discovered = Discovered::default();
    for group in groups {
        let name = group.metadata.name;
        let mut taken = Taken::default();
        for version in group.versions {
            if version.freshness == "Stale" {
                discovered.unavailable.push(Unavailable {
                    group: name.clone(),
                    version: version.version,
                    reason: "its API server does not answer, and what discovery knows of it is stale".into(),
                });
                continue;
            }
            for found in version.resources.into_iter().flatten() {
                let Some(kind) = found.response_kind.map(|kind| kind.kind).filter(|kind| !kind.is_empty()) else {
                    continue;
                };
                taken.offer(
                    &found.verbs,
                    Resource {
                        group: name.clone(),
                        version: version.version.clone(),
                        plural: found.resource,
                        singular: found.singular_resource,
                        kind,
                        short_names: found.short_names.unwrap_or_default(),
                        namespaced: found.scope == "Namespaced",
                    },
                );
            }
        }
        discovered.resources.extend(taken.0);
    }
    discovered
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Group {
    name: String,
    #[serde(default)]
    versions: Vec<GroupVersion>,
    preferred_version: Option<GroupVersion>,
}

#[derive(Clone, Deserialize, PartialEq)]
struct GroupVersion {
    version: String,
}

#[derive(Deserialize)]
struct ResourceList {
    #[serde(default)]
    resources: Vec<ListedResource>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListedResource {
    name: String,
    #[serde(default)]
    singular_name: String,
    namespaced: bool,
    kind: String,
    #[serde(default)]
    verbs: Vec<String>,
    #[serde(default)]
    short_names: Option<Vec<String>>,
}

async fn one_by_one(api: &Api, groups: Vec<Group>) -> Discovered {
    let answers = stream::iter(groups.into_iter().map(|mut group| async move {
        if let Some(preferred) = group.preferred_version.take() {
            group.versions.retain(|version| *version != preferred);
            group.versions.insert(0, preferred);
        }
        let root = if group.name.is_empty() { "/api/".to_owned() } else { format!("/apis/{}/", group.name) };
        let mut found = Discovered::default();
        let mut taken = Taken::default();
        for GroupVersion { version } in group.versions {
            let list = match api.fetch(&format!("{root}{version}"), "application/json").await {
                Ok(body) => wire::parse::<ResourceList>(&body, "discovery of a group"),
                Err(error) => Err(error),
            };
            match list {
                Ok(list) => {
                    for listed in list.resources.into_iter().filter(|listed| !listed.name.contains('/')) {
                        taken.offer(
                            &listed.verbs,
                            Resource {
                                group: group.name.clone(),
                                version: version.clone(),
                                plural: listed.name,
                                singular: listed.singular_name,
                                kind: listed.kind,
                                short_names: listed.short_names.unwrap_or_default(),
                                namespaced: listed.namespaced,
                            },
                        );
                    }
                }
                Err(error) => found.unavailable.push(Unavailable {
                    group: group.name.clone(),
                    version,
                    reason: error.to_string(),
                }),
            }
        }
        found.resources = taken.0;
        found
    }))
    .buffered(8)
    .collect::<Vec<_>>()
    .await;
    let mut discovered = Discovered::default();
    for found in answers {
        discovered.resources.extend(found.resources);
        discovered.unavailable.extend(found.unavailable);
    }
    discovered
}

/// The resources of one group, each at the first version that was offered and can be listed and watched.
#[derive(Default)]
struct Taken(Vec<Resource>);

impl Taken {
    fn offer(&mut self, verbs: &[String], resource: Resource) {
        let can = |verb: &str| verbs.iter().any(|v| v == verb);
        if can("list") && can("watch") && !self.0.iter().any(|taken| taken.plural == resource.plural) {
            self.0.push(resource);
        }
    }
}
