// SPDX-License-Identifier: GPL-2.0-only
//! Clients that no server should have to meet, for the test of the HTTP server and for its figures.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle, sleep};
use std::time::{Duration, Instant};

/// Time between two looks at the connections that an attacker holds open.
const TURN: Duration = Duration::from_millis(20);

/// What a client does to the server.
#[derive(Clone, Copy, Debug)]
pub enum Abuse {
    /// Connects and says nothing.
    Silent,
    /// Sends a head, a byte at a time.
    SlowHead,
    /// Sends a head that never ends.
    EndlessHead,
    /// Sends many requests at once, and rubbish between them.
    Garbage,
    /// Asks for the page, and hangs up while it is sent.
    Quitter,
    /// Asks for the page, and does not read it.
    SlowReader,
}

impl Abuse {
    pub const ALL: [Self; 6] = [
        Self::Silent,
        Self::SlowHead,
        Self::EndlessHead,
        Self::Garbage,
        Self::Quitter,
        Self::SlowReader,
    ];

    fn opening(self) -> Vec<u8> {
        let page = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n";
        match self {
            Self::Silent => Vec::new(),
            Self::SlowHead | Self::EndlessHead => page.to_vec(),
            Self::Garbage => [&page[..], b"\r\n\0\xff\r\n{}"].concat().repeat(100),
            Self::Quitter | Self::SlowReader => [&page[..], b"\r\n"].concat(),
        }
    }

    /// Go on with a connection. Return whether it is still of use.
    fn proceed(self, stream: &mut TcpStream) -> bool {
        let goes_on = |result: std::io::Result<usize>| match result {
            Ok(bytes) => bytes > 0,
            Err(error) => error.kind() == ErrorKind::WouldBlock,
        };
        match self {
            Self::Silent | Self::Garbage => goes_on(stream.read(&mut [0; 512])),
            Self::SlowHead => goes_on(stream.write(b"x")),
            Self::EndlessHead => goes_on(stream.write(&[b'x'; 4096])),
            Self::Quitter => stream.peek(&mut [0]).is_err(), // gone when the answer begins
            Self::SlowReader => stream.take_error().is_ok_and(|error| error.is_none()),
        }
    }
}

/// Attackers at work until they are dropped.
pub struct Attack {
    over: Arc<AtomicBool>,
    connections: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
}

impl Attack {
    /// Hold `each` connections of every kind in `kinds` open, and open those anew that the server
    /// ends.
    pub fn begin(address: SocketAddr, kinds: &[Abuse], each: usize) -> Self {
        let (over, connections) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let attack = |kind: &Abuse| {
            let (kind, over, count) = (*kind, Arc::clone(&over), Arc::clone(&connections));
            thread::spawn(move || {
                let mut open: Vec<TcpStream> = Vec::new();
                while !over.load(Ordering::Relaxed) {
                    open.retain_mut(|stream| kind.proceed(stream));
                    while open.len() < each && !over.load(Ordering::Relaxed) {
                        let Ok(mut stream) = TcpStream::connect(address) else { break };
                        count.fetch_add(1, Ordering::Relaxed);
                        let opened = stream
                            .set_nonblocking(true)
                            .and_then(|()| stream.write_all(&kind.opening()));
                        if opened.is_ok() {
                            open.push(stream);
                        }
                    }
                    sleep(TURN);
                }
            })
        };
        Self { threads: kinds.iter().map(attack).collect(), over, connections }
    }

    /// How many connections were made so far.
    pub fn connections(&self) -> u64 {
        self.connections.load(Ordering::Relaxed)
    }
}

impl Drop for Attack {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// What the server answers to GET, and how long that takes.
pub fn get(address: SocketAddr, path: &str) -> std::io::Result<(String, Duration)> {
    let began = Instant::now();
    let mut stream = TcpStream::connect(address)?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok((answer, began.elapsed()))
}
