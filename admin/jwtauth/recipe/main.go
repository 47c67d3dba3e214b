// Recipe runs the HTTP API and the web console with logins by JSON Web Tokens.
//
//	go run ./admin/jwtauth/recipe
//
// The program is also an issuer, so that it requires no other server. It prints a token for a viewer
// and a token for an operator, and serves requests until it is stopped:
//
//	console: http://127.0.0.1:40123/  API: http://127.0.0.1:40123/v1/runs
//	viewer: eyJhbGciOiJFUzI1NiIs…
//	operator: eyJhbGciOiJFUzI1NiIs…
//
// Log in to the console with a token, or try the API:
//
//	curl -H "Authorization: Bearer $TOKEN" http://127.0.0.1:40123/v1/runs
//
// The program is part of the module of package jwtauth, so that programs without JSON Web Tokens do
// not have its dependencies. The file issuer.go contains the issuer. In production, the issuer is a
// server such as Keycloak.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/admin/api"
	"github.com/flowgen/flowgen/admin/console"
	"github.com/flowgen/flowgen/admin/httpauth"
	"github.com/flowgen/flowgen/admin/jwtauth"
	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/workflow"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "recipe:", err)
		os.Exit(1)
	}
}

// handler serves the API to programs, which send bearer tokens, and the console to people, who log
// in with a token. Roles of the issuer that are not listed grant no rights.
func handler(client *workflow.Client, issuer, keys string) (http.Handler, error) {
	auth, err := jwtauth.New(jwtauth.Config{
		Issuer: issuer, Audience: "flowgen", JWKS: keys,
		RolesClaim: "realm_access.roles", // the claim that Keycloak uses
		Roles:      map[string]admin.Role{"staff": admin.RoleViewer, "oncall": admin.RoleOperator},
	})
	if err != nil {
		return nil, err
	}
	// Behind a proxy with TLS, set Secure. If there are several servers, set the same Key on all of
	// them.
	session, err := httpauth.NewSession(auth, httpauth.SessionConfig{Lasts: 8 * time.Hour})
	if err != nil {
		return nil, err
	}
	service := admin.New(client)
	mux := http.NewServeMux()
	mux.Handle(api.Prefix, api.New(service, api.Config{Auth: auth, Session: session}))
	mux.Handle("/", console.New(service, console.Config{Session: session}))
	return mux, nil
}

// run serves requests until ctx is done.
func run(ctx context.Context, out io.Writer) (err error) {
	st := memstore.New()
	client := workflow.NewClient(st, workflow.ClientConfig{})
	defer func() { err = errors.Join(err, client.Close(), st.Close()) }()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	own := "http://" + l.Addr().String()
	issuer, err := newIssuer(own)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	pages, err := handler(client, own, own+"/keys")
	if err != nil {
		return errors.Join(err, l.Close())
	}
	mux := http.NewServeMux()
	mux.Handle("GET /keys", issuer)
	mux.Handle("/", pages)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()

	_, _ = fmt.Fprintf(out, "console: %s/  API: %s/v1/runs\n", own, own)
	for _, who := range []struct{ name, role string }{{"viewer", "staff"}, {"operator", "oncall"}} {
		token, err := issuer.token(who.name, who.role, time.Now().Add(time.Hour))
		if err != nil {
			return errors.Join(err, server.Close())
		}
		_, _ = fmt.Fprintf(out, "%s: %s\n", who.name, token)
	}
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
		return server.Close()
	}
}
