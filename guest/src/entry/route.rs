//! The routes of requests.

/// The target of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// One whole turn.
    Tick,
    /// The current leader.
    Leader,
    /// The validity of the settings.
    Health,
}

/// The reason why a request has no route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// There is no such path.
    Path,
    /// The path supports only these methods.
    Method(&'static str),
}

const READ: &str = "GET, HEAD";
const WRITE: &str = "POST";

impl Route {
    /// Parses a request. `target` is the path, with or without a query.
    ///
    /// # Errors
    /// Fails if the path is unknown, or does not support this method.
    pub fn parse(method: &str, target: &str) -> Result<Self, Refusal> {
        let path = target.split('?').next().unwrap_or(target);
        let (route, methods) = match path {
            "/tick" => (Self::Tick, WRITE),
            "/leader" => (Self::Leader, READ),
            "/healthz" => (Self::Health, READ),
            _ => return Err(Refusal::Path),
        };
        match methods.split(',').any(|known| known.trim() == method) {
            true => Ok(route),
            false => Err(Refusal::Method(methods)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_map_to_routes() {
        assert_eq!(Route::parse("POST", "/tick"), Ok(Route::Tick));
        assert_eq!(Route::parse("POST", "/tick?now"), Ok(Route::Tick));
        assert_eq!(Route::parse("HEAD", "/leader"), Ok(Route::Leader));
        assert_eq!(Route::parse("GET", "/healthz"), Ok(Route::Health));
        assert_eq!(Route::parse("GET", "/tick"), Err(Refusal::Method("POST")));
        assert_eq!(Route::parse("POST", "/leader"), Err(Refusal::Method("GET, HEAD")));
        assert_eq!(Route::parse("post", "/tick"), Err(Refusal::Method("POST")));
        for path in ["", "/", "/tick/", "//tick", "/TICK", "/leader/x"] {
            assert_eq!(Route::parse("GET", path), Err(Refusal::Path), "{path}");
        }
    }
}
