// Package jwtauth authenticates JSON Web Tokens for the API and the console: [Authenticator]
// implements admin.Authenticator. It accepts tokens of one issuer for one audience within their
// validity, signed by a key of the issuer's JWKS with one of the listed algorithms.
//
// It is a separate module, so that programs without it do not have its dependencies.
package jwtauth
