//! The simulated network, as a task is given it.

use std::{fmt, io};

use trainyard_runtime::{Answer, Arrivals, Connection, Transport};
use turmoil::net::{TcpListener, TcpStream};

/// The simulation's TCP.
#[derive(Debug)]
pub(crate) struct Simulated;

/// A port of a simulated host.
struct Port(TcpListener);

impl fmt::Debug for Port {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Port({:?})", self.0.local_addr())
    }
}

impl Transport for Simulated {
    fn connect(&self, address: String) -> Answer<'static, Connection> {
        Box::pin(async move {
            let stream = TcpStream::connect(address.as_str()).await?;
            Ok(Box::new(stream) as Connection)
        })
    }

    fn listen(&self, address: String) -> Answer<'static, Box<dyn Arrivals>> {
        Box::pin(async move {
            let port = address
                .rsplit_once(':')
                .and_then(|(_, port)| port.parse::<u16>().ok());
            let port = port.ok_or_else(|| io::Error::other(format!("{address} has no port")))?;
            let listener = TcpListener::bind(("0.0.0.0", port)).await?;
            Ok(Box::new(Port(listener)) as Box<dyn Arrivals>)
        })
    }
}

impl Arrivals for Port {
    fn accept(&self) -> Answer<'_, (Connection, String)> {
        Box::pin(async {
            let (stream, peer) = self.0.accept().await?;
            Ok((Box::new(stream) as Connection, peer.to_string()))
        })
    }
}
