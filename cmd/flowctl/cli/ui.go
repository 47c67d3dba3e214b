package cli

import (
	"errors"
	"fmt"
	"net/url"
	"os/exec"
	"path"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/admin/api"
	"github.com/flowgen/flowgen/admin/console"
)

func (c *command) ui() *cobra.Command {
	var listen string
	var quiet bool
	cmd := &cobra.Command{
		Use: "ui", Short: "Open the web console of a store in a browser", Args: cobra.NoArgs,
		Long: "Ui serves the web console on this machine alone, and opens it in a browser. It ends with ctrl-C. For others, and for longer, there\n" +
			"is flowctl serve; a program of yours mounts the console with one line (package admin/console).",
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
				cfg := console.Config{Store: storeName(server), Flags: "--server " + hiddenPassword(server)}
				return serveUntil(ctx, l, console.Over(func(admin.Principal) console.Service { return s }, cfg))
			}
			stop := c.serveAdmin(ctx)
			return errors.Join(serveUntil(ctx, l, c.faces(api.Config{})), stop())
		},
	}
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:0", "address on this machine; port 0: a free one, which is printed")
	cmd.Flags().BoolVar(&quiet, "no-browser", false, "only print the address")
	return cmd
}

// open opens an address in a browser, if there is one: the address was printed.
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
		go func() { _ = cmd.Wait() }() // what it says is between it and the user
	}
}

// storeName returns what people call a store, from its URL.
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

// hiddenPassword returns a URL without the password in it.
func hiddenPassword(store string) string {
	u, err := url.Parse(store)
	if err != nil {
		return "URL"
	}
	return u.Redacted()
}
