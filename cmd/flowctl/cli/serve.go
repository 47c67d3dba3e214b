package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os/exec"
	"path"
	"runtime"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/cobra"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/admin/api"
	"github.com/flowgen/flowgen/admin/console"
	"github.com/flowgen/flowgen/admin/hooks"
	"github.com/flowgen/flowgen/internal/environ"
	"github.com/flowgen/flowgen/otelflow"
	"github.com/flowgen/flowgen/runtime/health"
)

func (c *command) serve() *cobra.Command {
	var listen, metrics string
	var who access
	cmd := &cobra.Command{
		Use: "serve", Short: "Serve the HTTP API, the web console and the hooks of a store", Args: cobra.NoArgs,
		Long: "Serve serves the HTTP API for flowctl --server and for programs; /v1/openapi.json describes it. It also executes bulk actions and\n" +
			"accepts payloads of hooks at POST /hooks/TOKEN, where the token is the only authentication. Without authentication, /livez answers\n" +
			"whether the process works, and /readyz whether its store answers.\n\n" +
			"Without --tokens, --jwt-issuer or --trust-proxy-header it listens only on the loopback interface, and every process that can\n" +
			"reach it has full access. With authentication, expose it only through a proxy that terminates TLS.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, server, err := c.where(); err != nil {
				return err
			} else if server != "" {
				return &admin.InputError{What: "serve requires direct access to the store", Fix: "give --store URL instead of --server"}
			}
			cfg, err := who.config()
			if err != nil {
				return err
			}
			if err := allowed(listen, who.known()); err != nil {
				return err
			}
			_, ctx, cancel, err := c.service(cmd.Context(), true)
			defer cancel()
			if err != nil {
				return err
			}
			l, err := c.listen(listen, who.known())
			if err != nil {
				return err
			}
			stopMetrics, err := c.serveMetrics(ctx, metrics)
			if err != nil {
				return errors.Join(err, l.Close())
			}
			stop := c.serveAdmin(ctx)
			return errors.Join(serveUntil(ctx, l, c.faces(cfg)), stop(), stopMetrics())
		},
	}
	cmd.Flags().StringVar(&metrics, "metrics", "", "address at which Prometheus can scrape /metrics: the gauges of queues, runs and limits")
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:7070", "address to listen on; port 0 selects a free port, which is printed")
	who.flags(cmd.Flags())
	return cmd
}

// faces returns a handler for the API of the open store, the console, the endpoint of hooks and the
// health of the process.
func (c *command) faces(cfg api.Config) http.Handler {
	url, _, _ := c.where() // The store is open, so the URL is valid.
	s := c.onStore()
	mux := http.NewServeMux()
	mux.Handle(api.Prefix, api.New(s, cfg))
	mux.Handle(hooks.Prefix, hooks.New(c.client, hooks.Config{}))
	checks := health.New(health.Store(c.store))
	mux.Handle(health.Live, checks)
	mux.Handle(health.Ready, checks)
	mux.Handle("/", console.New(s, console.Config{Store: storeName(url), Flags: "--store " + environ.HidePassword(url), Session: cfg.Session, Proxy: cfg.Proxy, CodecURL: c.env.CodecEndpoint}))
	return mux
}

// listen opens a listener at an address, and prints the address. known reports whether the server
// authenticates requests.
func (c *command) listen(address string, known bool) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	err = allowed(l.Addr().String(), known) // Check the actual address, because a host name may resolve to any address.
	if err == nil {
		_, err = fmt.Fprintf(c.Stdout, "http://%s\n", l.Addr())
	}
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// allowed returns an error if other machines could reach a server without authentication.
func allowed(address string, known bool) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return &admin.InputError{What: fmt.Sprintf("--listen %q: %v", address, err), Fix: "write 127.0.0.1:7070"}
	}
	at, err := netip.ParseAddr(host)
	if known || strings.EqualFold(host, "localhost") || err == nil && at.Unmap().IsLoopback() {
		return nil
	}
	return &admin.InputError{What: fmt.Sprintf("--listen %q: other machines could connect without authentication", address), Fix: "listen on 127.0.0.1, or give --tokens FILE, --jwt-issuer or --trust-proxy-header"}
}

// farewell is the time limit for requests in progress when the server stops.
const farewell = 5 * time.Second

// serveUntil serves requests until ctx is done. It then closes open streams, whose readers
// reconnect to another process.
func serveUntil(ctx context.Context, l net.Listener, h http.Handler) error {
	server := &http.Server{
		Handler: h, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	bye, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
	defer cancel()
	if err := server.Shutdown(bye); err != nil {
		_ = server.Close() // The remaining requests have had enough time.
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func (c *command) token() *cobra.Command {
	var t admin.Token
	var role string
	var lasts time.Duration
	cmd := &cobra.Command{
		Use: "token", Short: "Create a token for flowctl serve", Args: cobra.NoArgs,
		Long: "Token prints the secret to standard error, once: store it in the file of --token-file. To standard output it prints the entry for\n" +
			"the array in the file of flowctl serve --tokens, which does not contain the secret.",
		Example: "  flowctl token --name ada --role operator --for 2160h",
		RunE: func(*cobra.Command, []string) error {
			t.Role, t.Expires = admin.Role(role), time.Now().UTC().Add(lasts).Truncate(time.Second)
			entry, secret := admin.NewToken(t)
			if _, err := admin.NewTokens([]admin.Token{entry}, nil); err != nil {
				return err
			}
			if lasts <= 0 {
				return &admin.InputError{What: fmt.Sprintf("--for %v", lasts), Fix: "give a period of validity, such as 2160h"}
			}
			if _, err := fmt.Fprintln(c.Stderr, secret); err != nil {
				return err
			}
			return c.print(entry)
		},
	}
	cmd.Flags().StringVar(&t.Name, "name", "", "name of the owner of the token")
	cmd.Flags().StringVar(&role, "role", string(admin.RoleViewer), fmt.Sprintf("role: one of %v, each of which includes those before it", admin.Roles()))
	cmd.Flags().StringVar(&t.Owner, "owner", "", "allow access only to runs whose tag owner has this value; empty: to all runs")
	cmd.Flags().DurationVar(&lasts, "for", 90*24*time.Hour, "period of validity")
	return cmd
}

func (c *command) ui() *cobra.Command {
	var listen string
	var quiet bool
	cmd := &cobra.Command{
		Use: "ui", Short: "Open the web console of a store in a browser", Args: cobra.NoArgs,
		Long: "Ui serves the web console on the loopback interface until it is interrupted, and opens it in a browser. To serve it to other\n" +
			"machines use flowctl serve; to serve it from your own program use package admin/console.",
		Example: "  flowctl ui --store sqlite:orders.db",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := allowed(listen, false); err != nil {
				return err
			}
			s, ctx, cancel, err := c.service(cmd.Context(), true)
			defer cancel()
			if err != nil {
				return err
			}
			l, err := c.listen(listen, false)
			if err != nil {
				return err
			}
			if !quiet {
				open(fmt.Sprintf("http://%s/", l.Addr()))
			}
			if _, server, _ := c.where(); server != "" {
				cfg := console.Config{Store: storeName(server), Flags: "--server " + environ.HidePassword(server), CodecURL: c.env.CodecEndpoint}
				return serveUntil(ctx, l, console.Over(func(admin.Principal) console.Service { return s }, cfg))
			}
			stop := c.serveAdmin(ctx)
			return errors.Join(serveUntil(ctx, l, c.faces(api.Config{})), stop())
		},
	}
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:0", "loopback address to listen on; port 0 selects a free port, which is printed")
	cmd.Flags().BoolVar(&quiet, "no-browser", false, "print the address and open no browser")
	return cmd
}

// open opens a URL in a browser if possible. The caller has printed the URL before.
func open(at string) {
	name, args := "xdg-open", []string{at}
	switch runtime.GOOS {
	case "darwin":
		name = "open"
	case "windows":
		name, args = "rundll32", []string{"url.dll,FileProtocolHandler", at}
	}
	cmd := exec.Command(name, args...)
	if cmd.Start() == nil {
		go func() { _ = cmd.Wait() }() // Errors of the browser are not reported.
	}
}

// storeName returns a readable name for a store, derived from its URL.
func storeName(store string) string {
	u, err := url.Parse(store)
	switch {
	case err != nil || u.Scheme == "":
		return ""
	case u.Opaque != "":
		return path.Base(u.Opaque)
	case u.Host == "":
		return path.Base(u.Path)
	}
	name := u.Host
	if prefix := u.Query().Get("prefix"); prefix != "" {
		name = prefix + "@" + name
	}
	return name
}

// serveMetrics serves the metrics of the open store to Prometheus until ctx is done or stop is
// called. It prints the address. The metrics have names of workflows, queues and limits, but no IDs
// and no payloads, so requests are not authenticated.
func (c *command) serveMetrics(ctx context.Context, address string) (stop func() error, err error) {
	if address == "" {
		return func() error { return nil }, nil
	}
	registry := prometheus.NewRegistry()
	reader, err := exporter.New(exporter.WithRegisterer(registry), exporter.WithoutScopeInfo())
	if err != nil {
		return nil, err
	}
	end, err := otelflow.ObserveStore(c.client, otelflow.Config{MeterProvider: metric.NewMeterProvider(metric.WithReader(reader))})
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, &admin.InputError{What: fmt.Sprintf("--metrics %q: %v", address, err), Fix: "write 127.0.0.1:9464"}
	}
	if _, err := fmt.Fprintf(c.Stdout, "metrics: http://%s/metrics\n", l.Addr()); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{EnableOpenMetrics: true}))
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- serveUntil(ctx, l, mux) }()
	return func() error {
		defer end()
		cancel()
		return <-done
	}, nil
}
