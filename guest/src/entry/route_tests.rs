use super::*;

#[test]
fn requests_map_to_routes() {
    assert_eq!(Route::parse("POST", "/tick"), Ok(Route::Tick));
    assert_eq!(Route::parse("POST", "/tick?now"), Ok(Route::Tick));
    assert_eq!(Route::parse("HEAD", "/leader"), Ok(Route::Leader));
    assert_eq!(Route::parse("GET", "/healthz"), Ok(Route::Health));
    assert_eq!(Route::parse("GET", "/tick"), Err(RouteError::MethodNotAllowed("POST")));
    assert_eq!(Route::parse("POST", "/leader"), Err(RouteError::MethodNotAllowed("GET, HEAD")));
    assert_eq!(Route::parse("post", "/tick"), Err(RouteError::MethodNotAllowed("POST")));
    for path in ["", "/", "/tick/", "//tick", "/TICK", "/leader/x"] {
        assert_eq!(Route::parse("GET", path), Err(RouteError::UnknownPath), "{path}");
    }
}
