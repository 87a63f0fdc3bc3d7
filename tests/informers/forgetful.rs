//! The API server, but for one change that it can be made to lose: no real server does that on request.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use bytes::Bytes;
use futures::{StreamExt, future::BoxFuture};
use kubediff::cluster::{
    Feed, Resource,
    source::{Discovered, Error, Frame, Frames, List, Page, Source, Watch, api::Api},
};

pub struct Forgetful {
    api: Api,
    forget_next: Arc<Mutex<Option<String>>>,
}

impl Forgetful {
    pub fn new(api: Api) -> Self {
        Self { api, forget_next: Arc::default() }
    }

    pub fn forget_next_change(&self, name: &str) {
        *self.forget_next.lock().unwrap() = Some(format!("\"name\":\"{name}\""));
    }

    pub fn has_forgotten(&self) -> bool {
        self.forget_next.lock().unwrap().is_none()
    }
}

impl Source for Forgetful {
    fn discover(&self) -> BoxFuture<'_, Result<Discovered, Error>> {
        self.api.discover()
    }

    fn list<'a>(&'a self, feed: &'a Feed, page: &'a List) -> BoxFuture<'a, Result<Page, Error>> {
        self.api.list(feed, page)
    }

    fn watch<'a>(&'a self, feed: &'a Feed, watch: &'a Watch) -> BoxFuture<'a, Result<Frames, Error>> {
        Box::pin(async move {
            let forget = self.forget_next.clone();
            let frames = self.api.watch(feed, watch).await?;
            let keep = move |frame: &Result<Frame, Error>| {
                let mut forget = forget.lock().unwrap();
                let lost = match (frame, &*forget) {
                    (Ok(Frame::Added(object) | Frame::Modified(object) | Frame::Deleted(object)), Some(name)) => {
                        String::from_utf8_lossy(object).contains(name)
                    }
                    _ => false,
                };
                if lost {
                    *forget = None;
                }
                futures::future::ready(!lost)
            };
            Ok(frames.filter(keep).boxed())
        })
    }

    fn openapi_index(&self) -> BoxFuture<'_, Result<HashMap<String, String>, Error>> {
        self.api.openapi_index()
    }

    fn openapi<'a>(&'a self, resource: &'a Resource) -> BoxFuture<'a, Result<Option<Bytes>, Error>> {
        self.api.openapi(resource)
    }
}
