module github.com/flowgen/flowgen/admin/jwtauth

go 1.26.0

require (
	github.com/coreos/go-oidc/v3 v3.21.0
	github.com/flowgen/flowgen v0.1.0
	github.com/go-jose/go-jose/v4 v4.1.9
)

require (
	github.com/caarlos0/env/v11 v11.4.2 // indirect
	github.com/google/go-cmp v0.7.0 // indirect
	github.com/oklog/ulid/v2 v2.1.2 // indirect
	golang.org/x/oauth2 v0.36.0 // indirect
)
