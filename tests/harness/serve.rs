//! An HTTP/1.1 server on loopback, in a thread and a runtime of its own: it goes on when the test blocks or pauses
//! tokio's clock, and can misbehave below HTTP.

use std::{
    io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use bytes::Bytes;
use http_body_util::{BodyExt, Full, combinators::UnsyncBoxBody};
use hyper::{Request, Response, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use rustls::ServerConfig;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpListener,
    sync::{oneshot, watch},
    task::JoinSet,
};
use tokio_rustls::TlsAcceptor;

pub type Body = UnsyncBoxBody<Bytes, io::Error>;

/// What a handler answers. `Err` closes the connection without an answer, as a body's error does in the middle of one.
pub type Answered = Result<Response<Body>, io::Error>;

/// A running server; dropping it closes its port and all connections.
pub struct Server {
    pub addr: SocketAddr,
    tls: bool,
    refuse: Arc<AtomicBool>,
    /// Every change cuts the connections that are open, each of which holds a receiver.
    generation: watch::Sender<u64>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    pub fn start<H, F>(tls: Option<Arc<ServerConfig>>, handler: H) -> Self
    where
        H: Fn(Request<Incoming>) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Answered> + Send + 'static,
    {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        listener.set_nonblocking(true).expect("a non-blocking listener");
        let addr = listener.local_addr().expect("an address");
        let refuse = Arc::new(AtomicBool::new(false));
        let (generation, _) = watch::channel(0);
        let (stop, stopped) = oneshot::channel();
        let with_tls = tls.is_some();
        let acceptor = tls.map(TlsAcceptor::from);
        let thread = std::thread::spawn({
            let (refuse, generation) = (refuse.clone(), generation.clone());
            move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
                runtime.block_on(async {
                    let listener = TcpListener::from_std(listener).expect("a listener");
                    let accepting = accept(listener, acceptor, &refuse, &generation, handler);
                    tokio::select! { () = accepting => (), _ = stopped => () }
                });
            }
        });
        Self { addr, tls: with_tls, refuse, generation, stop: Some(stop), thread: Some(thread) }
    }

    /// `http://127.0.0.1:40123` or with https.
    pub fn url(&self) -> String {
        format!("{}://{}", if self.tls { "https" } else { "http" }, self.addr)
    }

    /// Cuts every open connection, in the middle of whatever it does.
    pub fn cut(&self) {
        self.generation.send_modify(|n| *n += 1);
    }

    /// Refuses new connections (they are reset at once) and cuts the open ones; or takes them again. When it returns,
    /// nothing passes any more.
    pub fn refuse(&self, refuse: bool) {
        self.refuse.store(refuse, Ordering::SeqCst);
        if !refuse {
            return;
        }
        self.cut();
        let until = Instant::now() + Duration::from_secs(20);
        while self.generation.receiver_count() > 0 {
            assert!(Instant::now() < until, "connections are still open");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A whole body.
pub fn full(body: impl Into<Bytes>) -> Body {
    Full::new(body.into()).map_err(|never| match never {}).boxed_unsync()
}

async fn accept<H, F>(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    refuse: &AtomicBool,
    generation: &watch::Sender<u64>,
    handler: H,
) where
    H: Fn(Request<Incoming>) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Answered> + Send + 'static,
{
    let mut connections = JoinSet::new();
    loop {
        let Ok((tcp, _)) = listener.accept().await else { continue };
        while connections.try_join_next().is_some() {}
        // Before anybody looks whether it is refused: it is either refused or cut.
        let mut generation = generation.subscribe();
        if refuse.load(Ordering::SeqCst) {
            let _ = tcp.set_zero_linger();
            continue;
        }
        let _ = tcp.set_nodelay(true);
        let (tls, handler) = (tls.clone(), handler.clone());
        connections.spawn(async move {
            let served = async {
                match tls {
                    Some(tls) => {
                        if let Ok(stream) = tls.accept(tcp).await {
                            serve(stream, handler).await;
                        }
                    }
                    None => serve(tcp, handler).await,
                }
            };
            tokio::select! { () = served => (), _ = generation.changed() => () }
        });
    }
}

async fn serve<H, F>(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, handler: H)
where
    H: Fn(Request<Incoming>) -> F,
    F: Future<Output = Answered>,
{
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(handler)).await;
}
