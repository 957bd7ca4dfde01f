//! The deny list: which addresses are never reached for a user, and why.
//!
//! IPv4 is a list of denied blocks. IPv6 is the other way round: only global unicast (`2000::/3`) is open, less the
//! blocks inside it that are special. An IPv6 address that carries an IPv4 address (mapped, compatible, NAT64, 6to4,
//! Teredo, ISATAP) is judged by the address it carries, for that is where the packet may come out.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Why an address may not be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DenyReason {
    /// `0.0.0.0/8`, `::`.
    Unspecified,
    /// `127.0.0.0/8`, `::1`.
    Loopback,
    /// `169.254.0.0/16` and `fe80::/10`, which hold the metadata service of most clouds.
    LinkLocal,
    /// A metadata or control address outside the link-local block.
    Metadata,
    /// RFC 1918, unique local and the retired site-local addresses.
    Private,
    /// `100.64.0.0/10`, the carrier's side of address translation.
    Shared,
    /// `198.18.0.0/15`, `2001:2::/48`.
    Benchmarking,
    /// The documentation blocks of both families.
    Documentation,
    /// Multicast of both families.
    Multicast,
    /// `255.255.255.255`.
    Broadcast,
    /// Reserved, unassigned, or assigned to a protocol that is no host.
    Reserved,
    /// An address of the machine Stead runs on.
    Own,
}

impl DenyReason {
    /// The reason as one lower-case word, for logs and messages.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unspecified => "unspecified",
            Self::Loopback => "loopback",
            Self::LinkLocal => "link-local",
            Self::Metadata => "metadata",
            Self::Private => "private",
            Self::Shared => "shared",
            Self::Benchmarking => "benchmarking",
            Self::Documentation => "documentation",
            Self::Multicast => "multicast",
            Self::Broadcast => "broadcast",
            Self::Reserved => "reserved",
            Self::Own => "own",
        }
    }

    /// Whether an operator's exemption can lift this denial. A registry may well stand on a private network or on this
    /// machine; none stands on a metadata address, a group or an address that names no host.
    pub fn can_be_exempted(self) -> bool {
        matches!(
            self,
            Self::Loopback | Self::Private | Self::Shared | Self::Benchmarking | Self::Documentation | Self::Own
        )
    }
}

/// First block that matches decides, so narrower blocks stand before the wider ones that contain them.
const DENIED_V4: &[(Ipv4Addr, u32, DenyReason)] = &[
    (Ipv4Addr::UNSPECIFIED, 8, DenyReason::Unspecified),
    (Ipv4Addr::new(10, 0, 0, 0), 8, DenyReason::Private),
    (Ipv4Addr::new(100, 100, 100, 200), 32, DenyReason::Metadata),
    (Ipv4Addr::new(100, 64, 0, 0), 10, DenyReason::Shared),
    (Ipv4Addr::new(127, 0, 0, 0), 8, DenyReason::Loopback),
    (Ipv4Addr::new(168, 63, 129, 16), 32, DenyReason::Metadata),
    (Ipv4Addr::new(169, 254, 0, 0), 16, DenyReason::LinkLocal),
    (Ipv4Addr::new(172, 16, 0, 0), 12, DenyReason::Private),
    (Ipv4Addr::new(192, 0, 0, 192), 32, DenyReason::Metadata),
    (Ipv4Addr::new(192, 0, 0, 0), 24, DenyReason::Reserved),
    (Ipv4Addr::new(192, 0, 2, 0), 24, DenyReason::Documentation),
    (Ipv4Addr::new(192, 88, 99, 0), 24, DenyReason::Reserved),
    (Ipv4Addr::new(192, 168, 0, 0), 16, DenyReason::Private),
    (Ipv4Addr::new(198, 18, 0, 0), 15, DenyReason::Benchmarking),
    (Ipv4Addr::new(198, 51, 100, 0), 24, DenyReason::Documentation),
    (Ipv4Addr::new(203, 0, 113, 0), 24, DenyReason::Documentation),
    (Ipv4Addr::new(224, 0, 0, 0), 4, DenyReason::Multicast),
    (Ipv4Addr::BROADCAST, 32, DenyReason::Broadcast),
    (Ipv4Addr::new(240, 0, 0, 0), 4, DenyReason::Reserved),
];

const DENIED_V6: &[(Ipv6Addr, u32, DenyReason)] = &[
    (Ipv6Addr::new(0xfd00, 0x0ec2, 0, 0, 0, 0, 0, 0x254), 128, DenyReason::Metadata),
    (Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 0), 7, DenyReason::Private),
    (Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0), 10, DenyReason::LinkLocal),
    (Ipv6Addr::new(0xfec0, 0, 0, 0, 0, 0, 0, 0), 10, DenyReason::Private),
    (Ipv6Addr::new(0xff00, 0, 0, 0, 0, 0, 0, 0), 8, DenyReason::Multicast),
    (Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, 0), 48, DenyReason::Benchmarking),
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32, DenyReason::Documentation),
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20, DenyReason::Documentation),
    // The protocol assignments (ORCHID and the like) are no hosts; Teredo, which lies inside, is taken out before.
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23, DenyReason::Reserved),
];

/// Judges an address by the lists alone; the machine's own addresses are judged by
/// [`HostAddresses`](crate::HostAddresses). `None` means that the address is public.
pub fn classify(address: IpAddr) -> Option<DenyReason> {
    match address.to_canonical() {
        IpAddr::V4(address) => classify_v4(address),
        IpAddr::V6(address) => classify_v6(address),
    }
}

fn classify_v4(address: Ipv4Addr) -> Option<DenyReason> {
    let bits = u32::from(address);
    DENIED_V4.iter().find_map(|&(network, prefix, reason)| {
        let same = (bits ^ u32::from(network)).checked_shr(32 - prefix).unwrap_or(0) == 0;
        same.then_some(reason)
    })
}

fn classify_v6(address: Ipv6Addr) -> Option<DenyReason> {
    if address == Ipv6Addr::UNSPECIFIED {
        return Some(DenyReason::Unspecified);
    }
    if address == Ipv6Addr::LOCALHOST {
        return Some(DenyReason::Loopback);
    }
    let carried = carried_v4(address);
    if let Some(reason) = carried.iter().copied().find_map(classify_v4) {
        return Some(reason);
    }
    let carrier = !carried.is_empty() && !is_isatap(address);
    if carrier {
        return None;
    }
    let bits = u128::from(address);
    let listed = DENIED_V6
        .iter()
        .find_map(|&(network, prefix, reason)| ((bits ^ u128::from(network)) >> (128 - prefix) == 0).then_some(reason));
    let global_unicast = address.segments()[0] & 0xe000 == 0x2000;
    listed.or((!global_unicast).then_some(DenyReason::Reserved))
}

fn is_isatap(address: Ipv6Addr) -> bool {
    let segments = address.segments();
    segments[5] == 0x5efe && matches!(segments[4], 0 | 0x0200) && segments[0] & 0xe000 == 0x2000
}

/// The IPv4 addresses that an IPv6 address carries; none for an ordinary address.
pub(crate) fn carried_v4(address: Ipv6Addr) -> Vec<Ipv4Addr> {
    let segments = address.segments();
    let pair = |high: u16, low: u16| Ipv4Addr::from((u32::from(high) << 16) | u32::from(low));
    let tail = pair(segments[6], segments[7]);
    match segments {
        // IPv4-compatible, IPv4-mapped, and NAT64 with the well-known prefix.
        [0, 0, 0, 0, 0, 0 | 0xffff, ..] | [0x64, 0xff9b, 0, 0, 0, 0, ..] => vec![tail],
        [0x2002, high, low, ..] => vec![pair(high, low)],
        // Teredo names its server, and the client with every bit inverted.
        [0x2001, 0, high, low, ..] => vec![pair(high, low), Ipv4Addr::from(!u32::from(tail))],
        _ if is_isatap(address) => vec![tail],
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_special_address_is_denied_for_its_reason() {
        use DenyReason as R;
        for (text, reason) in [
            ("0.0.0.0", R::Unspecified),
            ("0.1.2.3", R::Unspecified),
            ("10.0.0.0", R::Private),
            ("10.255.255.255", R::Private),
            ("100.64.0.0", R::Shared),
            ("100.127.255.255", R::Shared),
            ("100.100.100.200", R::Metadata),
            ("127.0.0.1", R::Loopback),
            ("127.255.255.254", R::Loopback),
            ("168.63.129.16", R::Metadata),
            ("169.254.169.254", R::LinkLocal),
            ("169.254.0.1", R::LinkLocal),
            ("172.16.0.0", R::Private),
            ("172.31.255.255", R::Private),
            ("192.0.0.1", R::Reserved),
            ("192.0.0.192", R::Metadata),
            ("192.0.2.2", R::Documentation),
            ("192.88.99.1", R::Reserved),
            ("192.168.0.1", R::Private),
            ("198.18.0.1", R::Benchmarking),
            ("198.19.255.255", R::Benchmarking),
            ("198.51.100.1", R::Documentation),
            ("203.0.113.255", R::Documentation),
            ("224.0.0.1", R::Multicast),
            ("239.255.255.255", R::Multicast),
            ("240.0.0.1", R::Reserved),
            ("255.255.255.255", R::Broadcast),
            ("::", R::Unspecified),
            ("::1", R::Loopback),
            ("::2", R::Unspecified),
            ("fc00::1", R::Private),
            ("fdff:ffff::1", R::Private),
            ("fd00:ec2::254", R::Metadata),
            ("fe80::1", R::LinkLocal),
            ("febf::1", R::LinkLocal),
            ("fec0::1", R::Private),
            ("feff::1", R::Private),
            ("ff02::1", R::Multicast),
            ("2001:db8::1", R::Documentation),
            ("3fff:fff::1", R::Documentation),
            ("2001:2::1", R::Benchmarking),
            ("2001:20::1", R::Reserved),
            ("100::1", R::Reserved),
            ("5f00::1", R::Reserved),
            ("4000::1", R::Reserved),
            ("fe00::1", R::Reserved),
            ("64:ff9b:1::808:808", R::Reserved),
            // IPv4 in IPv6 clothes.
            ("::ffff:127.0.0.1", R::Loopback),
            ("::ffff:169.254.169.254", R::LinkLocal),
            ("::10.0.0.1", R::Private),
            ("::ffff:0:10.0.0.1", R::Reserved),
            ("64:ff9b::10.0.0.1", R::Private),
            ("64:ff9b::a9fe:a9fe", R::LinkLocal),
            ("2002:7f00:1::", R::Loopback),
            ("2002:c0a8:101::1", R::Private),
            ("2002:a9fe:a9fe::", R::LinkLocal),
            // Teredo: a private server; and a public server with a client at 10.0.0.1.
            ("2001:0:a00:1::f7f7:f7f7", R::Private),
            ("2001:0:808:808::f5ff:fffe", R::Private),
            ("2a00:1450::5efe:10.0.0.1", R::Private),
            ("2a00:1450::200:5efe:7f00:1", R::Loopback),
        ] {
            assert_eq!(classify(text.parse().unwrap()), Some(reason), "{text}");
        }
    }

    #[test]
    fn the_neighbours_of_special_blocks_are_public() {
        for text in [
            "1.1.1.1",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.1",
            "168.63.129.17",
            "169.253.255.255",
            "169.255.0.0",
            "172.15.255.255",
            "172.32.0.0",
            "192.0.1.0",
            "192.0.3.0",
            "192.167.255.255",
            "192.169.0.0",
            "198.17.255.255",
            "198.20.0.0",
            "223.255.255.255",
            "2606:4700::1111",
            "2a00:1450:4001::1",
            "2001:200::1",
            "2001:4860::8888",
            "::ffff:8.8.8.8",
            "::8.8.8.8",
            "64:ff9b::808:808",
            "2002:808:808::1",
            "2001:0:808:808::f7f7:f7f7",
            "2a00:1450::5efe:8.8.8.8",
        ] {
            assert_eq!(classify(text.parse().unwrap()), None, "{text}");
        }
    }
}
