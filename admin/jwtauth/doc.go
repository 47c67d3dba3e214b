// Package jwtauth says whose a JSON Web Token is, for the API and the console: an [Authenticator] is an
// admin.Authenticator. It takes tokens of one issuer for one audience, signed by a key of its JWKS with one of the
// listed algorithms, within their time.
//
// It is a module of its own, so that those who do not use it do not have its dependencies among theirs.
package jwtauth
