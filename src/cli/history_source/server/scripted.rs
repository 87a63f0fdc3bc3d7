//! A server that answers as it is told, for tests of those who ask.

use std::sync::Arc;

use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    task::JoinSet,
};

use super::Server;

/// `answer` is given the path of each request with its parameters.
pub(crate) async fn server(answer: impl Fn(&str) -> Value + Send + Sync + 'static) -> Server {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = Server::new(&format!("http://{}", listener.local_addr().unwrap()), None, None).unwrap();
    let answer = Arc::new(answer);
    let mut serving = JoinSet::new();
    serving.spawn(async move {
        loop {
            let (mut socket, _) = listener.accept().await.unwrap();
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                socket.read_buf(&mut request).await.unwrap();
            }
            let request = String::from_utf8(request).unwrap();
            let body = answer(request.split(' ').nth(1).unwrap()).to_string();
            let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close";
            let answer = format!("{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
            socket.write_all(answer.as_bytes()).await.unwrap();
        }
    });
    server.through(serving)
}
