//! A TCP relay that counts what passes: bytes on the wire, with TLS and compression as they are.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

use crate::harness::Access;

pub struct Relay {
    access: Access,
    from_server: Arc<AtomicU64>,
    task: JoinHandle<()>,
}

impl Relay {
    /// Stands before the server that `upstream` leads to.
    pub async fn start(upstream: &Access) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        let to = upstream.url.trim_start_matches("https://").to_owned();
        let from_server = Arc::new(AtomicU64::new(0));
        let count = from_server.clone();
        let task = tokio::spawn(async move {
            let mut open = tokio::task::JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                while open.try_join_next().is_some() {}
                let (to, count) = (to.clone(), count.clone());
                open.spawn(async move {
                    let Ok(server) = TcpStream::connect(&to).await else { return };
                    let _ = (client.set_nodelay(true), server.set_nodelay(true));
                    let (client_reads, client_writes) = client.into_split();
                    let (server_reads, server_writes) = server.into_split();
                    let ignored = AtomicU64::new(0);
                    tokio::select! {
                        () = copy(server_reads, client_writes, &count) => {}
                        () = copy(client_reads, server_writes, &ignored) => {}
                    }
                });
            }
        });
        let access = Access { url: format!("https://127.0.0.1:{port}"), token: upstream.token.clone() };
        Self { access, from_server, task }
    }

    /// The way through the relay.
    pub fn access(&self) -> &Access {
        &self.access
    }

    /// Bytes that the server sent since the last call.
    pub fn take(&self) -> u64 {
        self.from_server.swap(0, Ordering::Relaxed)
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn copy(mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin, count: &AtomicU64) {
    let mut buffer = vec![0; 64 << 10];
    loop {
        let n = match from.read(&mut buffer).await {
            Ok(0) | Err(_) => return,
            Ok(n) => n,
        };
        count.fetch_add(n as u64, Ordering::Relaxed);
        if to.write_all(&buffer[..n]).await.is_err() {
            return;
        }
    }
}
