//! The fastest possible server: it reads only the lease id and accepts every request.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::thread;

use chrono::Utc;
use tenure_azure::encoding;

/// The key of the account that [`start`] serves. The server checks no key.
const KEY: &str = "a2V5IG9mIGEgc2VydmVyIHRoYXQgY2hlY2tzIG5vdGhpbmc=";

/// Starts the server in its own threads, on the processor of the calling thread. Returns the
/// connection string. The server ends with the process.
pub fn start() -> io::Result<String> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || answer_all(stream));
        }
    });
    Ok(format!("AccountName=floor;AccountKey={KEY};BlobEndpoint=http://{address}/floor"))
}

fn answer_all(mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = [0; 8 * 1024];
    let mut filled = 0;
    loop {
        // Requests have no body, and each follows the response to the last one.
        while !buffer[..filled].ends_with(b"\r\n\r\n") {
            match stream.read(&mut buffer[filled..])? {
                0 => return Ok(()),
                read => filled += read,
            }
        }
        let answer = answer(&String::from_utf8_lossy(&buffer[..filled]));
        stream.write_all(answer.as_bytes())?;
        filled = 0;
    }
}

fn answer(request: &str) -> String {
    let header = |prefix: &str| request.lines().find_map(|line| line.strip_prefix(prefix));
    let proposed = header("x-ms-proposed-lease-id: ");
    let lease = proposed.or_else(|| header("x-ms-lease-id: ")).unwrap_or_default();
    let creates = proposed.is_some() || request.contains("\r\nif-none-match: *");
    let status = if creates { "201 Created" } else { "200 OK" };
    let date = encoding::format_http_date(Utc::now());
    format!(
        "HTTP/1.1 {status}\r\n\
         content-length: 0\r\n\
         etag: \"0x8DE000000000000\"\r\n\
         last-modified: {date}\r\n\
         x-ms-lease-id: {lease}\r\n\
         x-ms-lease-state: available\r\n\
         x-ms-request-id: 00000000-0000-4000-8000-000000000000\r\n\
         x-ms-version: 2021-12-02\r\n\
         date: {date}\r\n\r\n"
    )
}
