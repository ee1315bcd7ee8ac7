// SPDX-License-Identifier: GPL-2.0-only
//! The HTTP server: metrics, health, and a landing page, from a thread of its own. It answers GET
//! and HEAD, one request a connection. No client can hold it up: connections are few and short, a
//! new one takes the place of the oldest, and pages are rendered by another thread.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ACCEPT, ALLOW, CONTENT_TYPE, HOST, HeaderMap, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use socket2::{Domain, Socket, Type};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::Mutex;
use tokio::task::{AbortHandle, spawn_blocking};

use crate::failure::Failure;
use crate::metrics::Format;

/// Connections at a time; few beside the 1024 files that systemd grants.
const MAX_CONNECTIONS: usize = 256;

/// Connections that the kernel keeps until they are accepted; it takes no more than
/// net.core.somaxconn.
const BACKLOG: i32 = 4096;

/// A request's head must be there within this time and size.
const HEAD_LIMIT: Duration = Duration::from_secs(2);
const MAX_HEAD_BYTES: usize = 8192; // the least that hyper takes

/// A connection ends after this time, whatever it does.
const CONNECTION_LIMIT: Duration = Duration::from_secs(5);

/// A page serves all who ask within this time from when it was asked for. This bounds the processor
/// time that clients can take, and with the limit above their memory: [`MAX_PAGES`].
const PAGE_LIFE: Duration = Duration::from_millis(200);

/// So many pages of each format are in memory at most, by clients that do not read them.
pub const MAX_PAGES: usize = (CONNECTION_LIMIT.as_millis() / PAGE_LIFE.as_millis()) as usize + 1;

/// After a failed accept, such as for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What the server tells.
pub trait Content: Send + Sync + 'static {
    /// The page of metrics.
    fn metrics(&self, format: Format) -> String;

    /// Whether all is well; else a sentence that says what is not.
    fn health(&self) -> Result<(), String>;
}

/// A socket that listens already, and is not served yet.
pub struct Server {
    socket: std::net::TcpListener,
}

impl Server {
    /// Listen at `address`; port 0 means any that is free.
    ///
    /// # Errors
    /// [`Failure::Listen`] if the address is not ours or the port is taken.
    pub fn bind(address: SocketAddr) -> Result<Self, Failure> {
        listen(address).map(|socket| Self { socket }).map_err(|error| {
            let what_to_do = match error.kind() {
                ErrorKind::AddrInUse => "choose another with --listen, or --listen off",
                ErrorKind::AddrNotAvailable => "choose an address of this VM with --listen",
                ErrorKind::PermissionDenied => "choose a port from 1024 on with --listen",
                _ => "choose another address with --listen, or --listen off",
            };
            Failure::Listen(format!("cannot serve metrics at {address}: {error}; {what_to_do}"))
        })
    }

    /// The address that it listens at.
    ///
    /// # Errors
    /// What the kernel said.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Serve `content` from a thread of its own until it is [stopped](Serving::stop).
    ///
    /// # Errors
    /// If there can be no such thread.
    pub fn serve(self, content: Arc<impl Content>) -> std::io::Result<Serving> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(1)
            .thread_keep_alive(Duration::MAX)
            .thread_name("render")
            .build()?;
        let listener = {
            let _within = runtime.enter();
            TcpListener::from_std(self.socket)?
        };
        let site = Arc::new(Site { content, pages: Default::default() });
        let accepting = runtime.spawn(accept(listener, site));
        let stop = accepting.abort_handle();
        let serve = move || {
            let _ = runtime.block_on(accepting);
            // A page that is being rendered is not waited for.
            runtime.shutdown_background();
        };
        let thread = thread::Builder::new().name("metrics".into()).spawn(serve)?;
        Ok(Serving { stop, thread })
    }
}

/// A server at work. Dropping it lets it go on.
pub struct Serving {
    stop: AbortHandle,
    thread: JoinHandle<()>,
}

impl Serving {
    /// Close the socket and all connections. The address is free afterwards.
    pub fn stop(self) {
        self.stop.abort();
        let _ = self.thread.join();
    }
}

fn listen(address: SocketAddr) -> std::io::Result<std::net::TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

async fn accept(listener: TcpListener, site: Arc<Site<impl Content>>) {
    let mut open = Connections::default();
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let (site, asked) = (Arc::clone(&site), Arc::<AtomicBool>::default());
        let on_loopback = stream.local_addr().is_ok_and(|address| address.ip().is_loopback());
        let conversation = converse(stream, on_loopback, site, Arc::clone(&asked));
        let task = tokio::spawn(async move {
            let _ = tokio::time::timeout(CONNECTION_LIMIT, conversation).await;
        });
        open.add(Connection { task: task.abort_handle(), asked });
        // Whoever asks is answered before others take its place.
        tokio::task::yield_now().await;
    }
}

/// The open connections, oldest first.
#[derive(Default)]
struct Connections(VecDeque<Connection>);

struct Connection {
    task: AbortHandle,
    /// Whether its request has come.
    asked: Arc<AtomicBool>,
}

impl Connections {
    /// Add one. If there are too many, end the oldest one that is still silent, unless it is among
    /// the younger half, else the oldest.
    fn add(&mut self, connection: Connection) {
        self.0.retain(|connection| !connection.task.is_finished());
        self.0.push_back(connection);
        if self.0.len() > MAX_CONNECTIONS {
            let mut older = self.0.iter().take(MAX_CONNECTIONS / 2);
            let silent = older.position(|c| !c.asked.load(Ordering::Relaxed));
            if let Some(oldest) = self.0.remove(silent.unwrap_or(0)) {
                oldest.task.abort();
            }
        }
    }
}

async fn converse(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    on_loopback: bool,
    site: Arc<Site<impl Content>>,
    asked: Arc<AtomicBool>,
) {
    let answer = service_fn(|request: Request<Incoming>| {
        asked.store(true, Ordering::Relaxed);
        let site = Arc::clone(&site);
        async move { Ok::<_, Infallible>(site.respond(&request, on_loopback).await) }
    });
    // What a client does wrong is its own business.
    let _ = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_LIMIT)
        .max_buf_size(MAX_HEAD_BYTES)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), answer)
        .await;
}

/// The content, and the youngest page of each format.
struct Site<C> {
    content: Arc<C>,
    pages: [Mutex<Option<(Instant, Bytes)>>; 2],
}

impl<C: Content> Site<C> {
    async fn respond<B>(&self, request: &Request<B>, on_loopback: bool) -> Response<Full<Bytes>> {
        if on_loopback && !names_this_machine(request.headers()) {
            let text = "ask for localhost, or an address\n";
            return plain(StatusCode::MISDIRECTED_REQUEST, text.into());
        }
        if request.method() != Method::GET && request.method() != Method::HEAD {
            let mut response = plain(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD\n".into());
            response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return response;
        }
        match request.uri().path() {
            "/" => typed(StatusCode::OK, "text/html; charset=utf-8", LANDING_PAGE.into()),
            "/metrics" => {
                let accept = request.headers().get(ACCEPT).and_then(|value| value.to_str().ok());
                let format = Format::accepted(accept.unwrap_or_default());
                match self.page(format).await {
                    Some(page) => typed(StatusCode::OK, format.content_type(), page),
                    None => {
                        plain(StatusCode::INTERNAL_SERVER_ERROR, "no page; see the log\n".into())
                    }
                }
            }
            "/healthz" => match self.content.health() {
                Ok(()) => plain(StatusCode::OK, "ok\n".into()),
                Err(why) => plain(StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n").into()),
            },
            _ => plain(StatusCode::NOT_FOUND, "there are /, /metrics and /healthz\n".into()),
        }
    }

    /// A page that is at most [`PAGE_LIFE`] old. One client has it rendered, the others wait for
    /// it. `None` if rendering panics.
    async fn page(&self, format: Format) -> Option<Bytes> {
        let mut latest = self.pages[format as usize].lock().await;
        if let Some((since, page)) = &*latest
            && since.elapsed() < PAGE_LIFE
        {
            return Some(page.clone());
        }
        let (content, began) = (Arc::clone(&self.content), Instant::now());
        let page = Bytes::from(spawn_blocking(move || content.metrics(format)).await.ok()?);
        *latest = Some((began, page.clone()));
        Some(page)
    }
}

/// Return whether a request on loopback was meant for it. A web page whose name was bound to a
/// loopback address (DNS rebinding) sends that name.
fn names_this_machine(headers: &HeaderMap) -> bool {
    let Some(host) = headers.get(HOST) else { return true };
    let Ok(host) = host.to_str() else { return false };
    let name = host.rsplit_once(':').filter(|(_, port)| !port.contains(']')).map_or(host, |h| h.0);
    name == "localhost" || name.trim_matches(['[', ']']).parse::<IpAddr>().is_ok()
}

fn plain(status: StatusCode, text: Bytes) -> Response<Full<Bytes>> {
    typed(status, "text/plain; charset=utf-8", text)
}

fn typed(status: StatusCode, kind: &'static str, text: Bytes) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(text));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

const LANDING_PAGE: &str = "<!doctype html>\n<title>scx_vaware</title>\n\
    <h1>scx_vaware</h1>\n<p>A vCPU-aware CPU scheduler runs in this VM.</p>\n\
    <ul>\n<li><a href=\"/metrics\">/metrics</a> for Prometheus, and for scx_vaware top</li>\n\
    <li><a href=\"/healthz\">/healthz</a>: 200 if the scheduler is enabled, else 503</li>\n</ul>\n";

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::Ipv4Addr;

    use proptest::collection::vec;
    use proptest::prelude::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    struct Sick;

    impl Content for Sick {
        fn metrics(&self, format: Format) -> String {
            format!("{format:?}\n")
        }

        fn health(&self) -> Result<(), String> {
            Err("the scheduler is stopping".into())
        }
    }

    fn serve() -> Option<SocketAddr> {
        let server = Server::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).ok()?;
        let address = server.address().ok()?;
        server.serve(Arc::new(Sick)).ok()?;
        Some(address)
    }

    /// What the server answers to these bytes, until it hangs up.
    fn ask(address: SocketAddr, request: &str) -> std::io::Result<String> {
        let mut stream = std::net::TcpStream::connect(address)?;
        stream.write_all(request.as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    }

    #[test]
    fn each_path_has_its_answer() -> std::io::Result<()> {
        let Some(address) = serve() else { return Err(ErrorKind::Other.into()) };
        for (request, status, text) in [
            ("GET / HTTP/1.1\r\nHost: localhost:1\r\n\r\n", 200, "/healthz"),
            ("GET /metrics HTTP/1.1\r\nHost: [::1]:1\r\n\r\n", 200, "Classic"),
            ("GET /metrics HTTP/1.0\r\n\r\n", 200, "Classic"),
            (
                "GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\
                 Accept: application/openmetrics-text;version=1.0.0,*/*;q=0.1\r\n\r\n",
                200,
                "OpenMetrics",
            ),
            ("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", 503, "is stopping"),
            ("GET /x HTTP/1.1\r\nHost: localhost\r\n\r\n", 404, "/metrics"),
            ("POST /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", 405, "allow: GET, HEAD"),
            ("GET /metrics HTTP/1.1\r\nHost: evil.example:9817\r\n\r\n", 421, "localhost"),
            ("nonsense\r\n\r\n", 400, ""),
        ] {
            let answer = ask(address, request)?;
            assert!(answer.split(' ').nth(1) == Some(&status.to_string()), "{request}: {answer}");
            assert!(answer.contains(text), "{request}: {answer}");
        }
        Ok(())
    }

    /// What is answered to these bytes, after which the client says no more.
    fn answer(runtime: &tokio::runtime::Runtime, bytes: &[u8]) -> String {
        let site = Arc::new(Site { content: Arc::new(Sick), pages: Default::default() });
        runtime.block_on(async {
            let (mut client, server) = duplex(1 << 16);
            let _ = client.write_all(bytes).await;
            let _ = client.shutdown().await;
            converse(server, true, site, Arc::default()).await;
            let mut answer = String::new();
            let _ = client.read_to_string(&mut answer).await;
            answer
        })
    }

    /// Bytes in the manner of a request, right and wrong.
    fn near_request() -> impl Strategy<Value = Vec<u8>> {
        let line =
            "(GET|HEAD|POST|\\PC{0,4})( |)(/|/metrics|/healthz|\\*|/[ -~]{0,8}) HTTP/(1.1|1.0|9)";
        let host = "Host: ?(localhost(:[0-9]{0,5})?|\\[::1\\]|127.0.0.1|[ -~]{0,9})";
        let header =
            prop_oneof![host, "Accept: [ -~]{0,40}", "[ -~]{0,20}", "Content-Length: [0-9]{0,25}"];
        (line, vec(header, 0..4), "(\r\n\r\n|\n\n|\r\n|)", vec(any::<u8>(), 0..8)).prop_map(
            |(line, headers, end, body)| {
                let mut lines = vec![line];
                lines.extend(headers);
                let mut bytes = lines.join("\r\n").into_bytes();
                bytes.extend(end.bytes().chain(body));
                bytes
            },
        )
    }

    #[test]
    fn any_bytes_are_answered_by_http_or_by_nothing() -> std::io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let bytes = prop_oneof![4 => near_request(), 1 => vec(any::<u8>(), 0..200)];
        let mut runner = proptest::test_runner::TestRunner::default();
        let tested = runner.run(&bytes, |bytes| {
            let answer = answer(&runtime, &bytes);
            let status = answer.strip_prefix("HTTP/1.").and_then(|rest| rest.split(' ').nth(1));
            let known = ["200", "400", "404", "405", "414", "421", "431", "503", "505"];
            prop_assert!(
                answer.is_empty() || status.is_some_and(|status| known.contains(&status)),
                "{answer}"
            );
            Ok(())
        });
        tested.map_err(|why| std::io::Error::other(why.to_string()))
    }

    #[test]
    fn an_address_is_free_when_its_server_has_stopped() -> std::io::Result<()> {
        for _ in 0..20 {
            let server = Server::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
            let Ok(server) = server else { return Err(ErrorKind::Other.into()) };
            let address = server.address()?;
            let serving = server.serve(Arc::new(Sick))?;
            let _silent = std::net::TcpStream::connect(address)?;
            assert!(Server::bind(address).is_err());
            serving.stop();
            assert!(Server::bind(address).is_ok());
        }
        Ok(())
    }

    #[test]
    fn a_head_without_end_is_cut_off() -> std::io::Result<()> {
        let Some(address) = serve() else { return Err(ErrorKind::Other.into()) };
        let endless = format!("GET / HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(4 * MAX_HEAD_BYTES));
        let refused = ask(address, &endless).unwrap_or_default();
        assert!(!refused.contains("200 OK"), "{refused}");
        Ok(())
    }

    #[test]
    fn a_port_that_is_taken_is_named() -> std::io::Result<()> {
        let taken = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let refused = Server::bind(taken.local_addr()?).err();
        let text = refused.as_ref().map(|failure| failure.to_string()).unwrap_or_default();
        assert_eq!(refused.map(|failure| failure.exit_code()), Some(73));
        assert!(text.contains(&taken.local_addr()?.to_string()), "{text}");
        assert!(text.contains("--listen off"), "{text}");
        Ok(())
    }
}
