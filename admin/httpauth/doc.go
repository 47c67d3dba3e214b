// Package httpauth authenticates HTTP requests for the API and the console: by a bearer token
// ([Bearer]), by the cookie of a browser that has logged in with one ([Session]), or by a header of
// a trusted proxy ([Proxy]). [First] combines them. The rights of a principal are applied
// elsewhere, by the method As of admin.Service.
//
// A request with an invalid credential is refused even if it has another credential that is valid,
// so that no request is accepted because of a credential that another party added.
package httpauth
