//! The user of a peer on loopback: a port there is open to all users of the host.

use std::io;
use std::net::{IpAddr, SocketAddr};

use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink};

use crate::listener::may_connect;

/// `SOCK_DIAG_BY_FAMILY` of sock_diag(7).
const BY_FAMILY: u16 = 20;
/// `NLM_F_REQUEST` of netlink(7).
const REQUEST: u16 = 1;
/// `NLMSG_ERROR` of netlink(7).
const ERROR: u16 = 2;
/// `IPPROTO_TCP`.
const TCP: u8 = 6;
/// `INET_DIAG_NOCOOKIE` of sock_diag(7): the socket is named by its addresses alone.
const NO_COOKIE: [u8; 8] = [0xff; 8];
/// Bytes of a `struct nlmsghdr` and a `struct inet_diag_req_v2`.
const REQUEST_BYTES: u32 = 16 + 56;
/// Place of `idiag_uid`, and behind it of `idiag_inode`, in an answer: behind the `struct nlmsghdr`, four bytes, a
/// `struct inet_diag_sockid` and three numbers.
const USER_AT: usize = 16 + 4 + 48 + 12;

/// One end of a connection of this host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// A process of this user has it open.
    OfUser(u32),
    /// No process has it open.
    Closed,
    /// The system does not tell, as where it has no sock_diag(7).
    Unknown,
}

/// Checks that a peer that has connected over loopback is a process of the same user, or of the host's administrator. A peer
/// elsewhere passes, and so does each peer where the system does not tell users.
///
/// # Errors
/// The peer is a process of another user, or has closed the connection.
pub(crate) fn check_loopback_user(peer: SocketAddr, own: SocketAddr) -> io::Result<()> {
    if !peer.ip().to_canonical().is_loopback() {
        return Ok(());
    }
    match end(peer, own) {
        End::OfUser(user) => may_connect(user, rustix::process::geteuid().as_raw()),
        // Where the own end is not found either, the system does not tell.
        End::Closed if matches!(end(own, peer), End::OfUser(_)) => Err(io::Error::new(
            io::ErrorKind::ConnectionAborted,
            "the caller closed the connection before its first request",
        )),
        End::Closed | End::Unknown => Ok(()),
    }
}

/// Looks for the end at `local` of the connection between `local` and `remote`, in the network namespace of this process.
fn end(local: SocketAddr, remote: SocketAddr) -> End {
    match ask(local, remote) {
        Ok(end) => end,
        Err(Errno::NOENT) => End::Closed,
        Err(_) => End::Unknown,
    }
}

fn ask(local: SocketAddr, remote: SocketAddr) -> rustix::io::Result<End> {
    let socket = rustix::net::socket_with(
        AddressFamily::NETLINK,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC,
        Some(netlink::SOCK_DIAG),
    )?;
    let kernel = netlink::SocketAddrNetlink::new(0, 0);
    rustix::net::sendto(
        &socket,
        &request(local, remote),
        SendFlags::empty(),
        &kernel,
    )?;
    let mut answer = [0; 512];
    // The kernel has answered when `sendto` returns.
    let (_, length) = rustix::net::recv(&socket, &mut answer, RecvFlags::DONTWAIT)?;
    read(answer.get(..length).unwrap_or(&answer))
}

/// Returns a `struct nlmsghdr` and a `struct inet_diag_req_v2` that ask for one socket, see sock_diag(7).
fn request(local: SocketAddr, remote: SocketAddr) -> Vec<u8> {
    let (local_ip, remote_ip) = (local.ip().to_canonical(), remote.ip().to_canonical());
    let family = match local_ip {
        IpAddr::V4(_) => AddressFamily::INET,
        IpAddr::V6(_) => AddressFamily::INET6,
    };
    let mut request = Vec::new();
    request.extend(REQUEST_BYTES.to_ne_bytes());
    request.extend(BY_FAMILY.to_ne_bytes());
    request.extend(REQUEST.to_ne_bytes());
    // The number of the request, and the sender: the kernel knows.
    request.extend([0; 8]);
    request.extend([family.as_raw() as u8, TCP, 0, 0]);
    // All states.
    request.extend(u32::MAX.to_ne_bytes());
    request.extend(local.port().to_be_bytes());
    request.extend(remote.port().to_be_bytes());
    for ip in [local_ip, remote_ip] {
        let mut bytes = [0; 16];
        match ip {
            IpAddr::V4(ip) => bytes[..4].copy_from_slice(&ip.octets()),
            IpAddr::V6(ip) => bytes = ip.octets(),
        }
        request.extend(bytes);
    }
    // Any interface.
    request.extend([0; 4]);
    request.extend(NO_COOKIE);
    request
}

/// Reads the kernel's answer: a `struct nlmsghdr` with a `struct inet_diag_msg`, or with an error number.
fn read(answer: &[u8]) -> rustix::io::Result<End> {
    let number = |at: usize| {
        let bytes = answer.get(at..).and_then(|rest| rest.first_chunk());
        bytes
            .map(|bytes| u32::from_ne_bytes(*bytes))
            .ok_or(Errno::BADMSG)
    };
    let kind = answer.get(4..).and_then(|rest| rest.first_chunk());
    match kind.map(|kind| u16::from_ne_bytes(*kind)) {
        Some(BY_FAMILY) => {}
        Some(ERROR) => {
            let code = number(16)?.cast_signed();
            return Err(Errno::from_raw_os_error(code.checked_neg().unwrap_or(0)));
        }
        _ => return Err(Errno::BADMSG),
    }
    let (user, inode) = (number(USER_AT)?, number(USER_AT + 4)?);
    // A connection that no process has open has no inode.
    Ok(if inode == 0 {
        End::Closed
    } else {
        End::OfUser(user)
    })
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn the_user_of_the_other_end_is_found_while_it_is_open() {
        let own_user = rustix::process::geteuid().as_raw();
        for host in ["127.0.0.1:0", "[::1]:0", "[::ffff:127.0.0.1]:0"] {
            let Ok(listener) = TcpListener::bind(host) else {
                continue;
            };
            let own = listener.local_addr().expect("an address");
            let client = TcpStream::connect(own).expect("it listens");
            let (_accepted, peer) = listener.accept().expect("a connection");
            assert_eq!(end(peer, own), End::OfUser(own_user), "{host}");
            assert_eq!(end(own, peer), End::OfUser(own_user), "{host}");
            check_loopback_user(peer, own).expect("the same user");
            drop(client);
            assert_eq!(end(peer, own), End::Closed, "{host}");
            check_loopback_user(peer, own).expect_err("nobody is there");
        }
    }

    #[test]
    fn a_peer_elsewhere_passes() {
        let at = |text: &str| text.parse::<SocketAddr>().expect("an address");
        check_loopback_user(at("192.0.2.7:40000"), at("192.0.2.8:2222")).expect("it is not local");
    }

    #[test]
    fn an_answer_that_is_no_answer_tells_nothing() {
        assert_eq!(read(&[]), Err(Errno::BADMSG));
        assert_eq!(read(&[0; 64]), Err(Errno::BADMSG));
        let mut refused = vec![0; 36];
        refused[4..6].copy_from_slice(&ERROR.to_ne_bytes());
        refused[16..20].copy_from_slice(&(-2_i32).to_ne_bytes());
        assert_eq!(read(&refused), Err(Errno::NOENT));
    }
}
