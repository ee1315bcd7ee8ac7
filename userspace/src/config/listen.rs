// SPDX-License-Identifier: GPL-2.0-only
//! Where metrics are served.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use super::quote;

/// Where metrics are served. Written as `ADDR:PORT` or `off`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listen {
    Off,
    At(SocketAddr),
}

impl Listen {
    /// Where to connect on this machine, if anywhere: to what listens everywhere, by loopback.
    pub fn reachable(self) -> Option<SocketAddr> {
        let Self::At(address) = self else { return None };
        let ip = match address.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
            ip => ip,
        };
        Some(SocketAddr::new(ip, address.port()))
    }
}

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "off" {
            return Ok(Self::Off);
        }
        address(text).map(Self::At).map_err(|reason| format!("{reason}, or off"))
    }
}

impl std::fmt::Display for Listen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Off => f.write_str("off"),
            Self::At(address) => address.fmt(f),
        }
    }
}

/// The address and port in `text`. `localhost` is that of IPv4; other names are not looked up, for
/// they could stand for another machine tomorrow.
///
/// # Errors
/// A sentence that shows what to write.
pub fn address(text: &str) -> Result<SocketAddr, String> {
    let numeric = match text.strip_prefix("localhost:") {
        Some(port) => format!("{}:{port}", Ipv4Addr::LOCALHOST),
        None => text.into(),
    };
    numeric.parse().map_err(|_| {
        format!(
            "{:?} is no IP address with a port; write one such as 127.0.0.1:9817, [::1]:9817, \
             localhost:9817",
            quote(text)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_means_all_is_asked_on_loopback() {
        for (listens, asked) in [
            ("0.0.0.0:9817", Some("127.0.0.1:9817")),
            ("[::]:1", Some("[::1]:1")),
            ("10.0.0.1:2", Some("10.0.0.1:2")),
            ("off", None),
        ] {
            let reachable = listens.parse().map(Listen::reachable);
            assert_eq!(reachable, Ok(asked.and_then(|asked| asked.parse().ok())));
        }
    }
}
