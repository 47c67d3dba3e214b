// Command flowctl is for those who operate workflows: it works with the store of a fleet. Run it with -help.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	_ "github.com/flowgen/flowgen/redisstore"
	"github.com/flowgen/flowgen/runtime/store"
	_ "github.com/flowgen/flowgen/sqlitestore"
)

const help = `flowctl works with the store of a fleet.

usage: flowctl COMMAND [flags]

  migrate    bring a store that an older release has written up to date

flowctl COMMAND -help says more.
`

const migrateHelp = `usage: flowctl migrate --store URL

Migrate brings the store that URL names (sqlite:orders.db, redis://host:6379/0?prefix=flowgen)
up to the format of this release. Stop all processes of the older release first. Afterwards
none of them can write; until it has ended, neither can those of this release. It may be
interrupted and executed again, and by several at once.

`

// Exit codes.
const (
	exitFailed  = 1
	exitUsage   = 2
	exitRefused = 4 // the state of the store does not allow it
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run executes a command and returns its exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	switch {
	case len(args) == 0:
		fmt.Fprint(stderr, help)
		return exitUsage
	case args[0] == "migrate":
		return migrate(ctx, args[1:], stdout, stderr)
	case args[0] == "-help" || args[0] == "--help" || args[0] == "-h" || args[0] == "help":
		fmt.Fprint(stdout, help)
		return 0
	}
	fmt.Fprintf(stderr, "flowctl: unknown command %q\n\n%s", args[0], help)
	return exitUsage
}

func migrate(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	f := flag.NewFlagSet("migrate", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.Usage = func() {
		fmt.Fprint(stderr, migrateHelp)
		f.PrintDefaults()
	}
	url := f.String("store", "", "`URL` of the store")
	if err := f.Parse(args); errors.Is(err, flag.ErrHelp) {
		return 0
	} else if err != nil {
		return exitUsage
	}
	if *url == "" || f.NArg() > 0 {
		f.Usage()
		return exitUsage
	}
	err := store.Migrate(ctx, *url)
	if err == nil {
		fmt.Fprintln(stdout, "The store has the format of this release.")
		return 0
	}
	fmt.Fprintln(stderr, "flowctl:", err)
	if errors.As(err, new(*store.FleetError)) || errors.Is(err, store.ErrForeign) || errors.As(err, new(*store.VersionError)) || errors.As(err, new(*store.OldFormatError)) {
		return exitRefused
	}
	return exitFailed
}
