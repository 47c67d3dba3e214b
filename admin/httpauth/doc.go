// Package httpauth says who sends an HTTP request, for the API and for the console: by a bearer token ([Bearer]), by
// the cookie of a browser that has logged in with one ([Session]), or by a header that a trusted proxy sets ([Proxy]).
// [First] puts them together. What a principal may do is decided elsewhere: by the method As of admin.Service.
//
// A request with a credential that is nobody's is refused, also if it has another one that is good: nobody is let
// through by what somebody else has added.
package httpauth
