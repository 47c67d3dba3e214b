// Package cli implements the command flowctl for operators of workflows. A custom main function can
// add stores that flowctl does not support:
//
//	func main() {
//		os.Exit(cli.Main(context.Background(), cli.Config{Open: open}))
//	}
//
// The command writes data to standard output, and all other output to standard error. With --json
// both are JSON in the forms of package admin. The exit codes are:
//
//	0    success
//	1    the store failed
//	2    the arguments are invalid
//	3    the run does not exist
//	4    the state of the run does not permit the action
//	5    some of several actions were refused
//	7    a check found problems
//	8    an awaited run did not complete
//	124  the time limit was exceeded
//	130  the command was interrupted
package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/admin/console"
	"github.com/flowgen/flowgen/admin/remote"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Config contains the parts of flowctl that a program can replace. The zero value is flowctl with
// the stores that the program imports.
type Config struct {
	// Open opens the store at the URL in the flag --store. Nil means store.OpenExisting.
	Open func(ctx context.Context, url string) (store.Store, error)
	// Args contains the arguments without the program name. Nil means the arguments of the process.
	Args           []string
	Stdin          io.Reader // nil means standard input of the process
	Stdout, Stderr io.Writer // nil means standard output and standard error of the process
}

// The exit codes that do not belong to a problem.
const (
	exitUsage  = 2
	exitSome   = 5
	exitFound  = 7
	exitFailed = 8
)

// Main executes the command and returns its exit code.
func Main(ctx context.Context, cfg Config) int {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	if cfg.Open == nil {
		cfg.Open = store.OpenExisting
	}
	if cfg.Args == nil {
		cfg.Args = os.Args[1:]
	}
	if cfg.Stdin == nil {
		cfg.Stdin = os.Stdin
	}
	if cfg.Stdout == nil {
		cfg.Stdout = os.Stdout
	}
	if cfg.Stderr == nil {
		cfg.Stderr = os.Stderr
	}
	c := &command{Config: cfg}
	defer c.close()
	root := c.root()
	root.SetArgs(cfg.Args)
	root.SetIn(cfg.Stdin)
	root.SetOut(cfg.Stdout)
	root.SetErr(cfg.Stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	exit, isExit := errors.AsType[exitError](err)
	if isExit && exit.err == nil {
		return exit.code
	}
	if _, isInput := errors.AsType[*admin.InputError](err); !c.ran && !isInput { // The error is from cobra and concerns the arguments.
		err = &admin.InputError{What: err.Error(), Fix: "see flowctl --help"}
	}
	c.complain(err)
	if isExit {
		return exit.code
	}
	return admin.ProblemOf(err).Exit
}

// exitError ends the command with an exit code. If err is nil, nothing is printed.
type exitError struct {
	code int
	err  error
}

func (e exitError) Error() string { return fmt.Sprint("exit ", e.code, ": ", e.err) }
func (e exitError) Unwrap() error { return e.err }

// command is one execution of flowctl.
type command struct {
	Config
	url     string
	server  string
	tokens  string // path of the file that contains the token
	output  string
	asJSON  bool
	timeout time.Duration
	yes     bool
	hide    string

	journalMost int
	journalFor  time.Duration

	env environment

	ran bool // the arguments are valid

	store  store.Store
	client *workflow.Client
}

// outputs lists the output formats.
var outputs = []string{"table", "wide", "json", "jsonl", "name"}

func (c *command) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "flowctl",
		Short: "Inspect and control the runs of a store",
		Long: "Flowctl inspects and controls the runs of a store.\n\n" +
			"A RUN is a run id, or id:WORKFLOWID, which selects the active run of the workflow id, or else its newest run.\n" +
			"Exit codes: 0 success, 1 the store failed, 2 usage error, 3 no such run, 4 not allowed in this state, 5 some runs were refused,\n" +
			"6 permission denied, 7 doctor or fsck found problems, 8 the awaited run did not complete, 9 unknown whether a build is drained, 124 timeout, 130 interrupted.",
		SilenceErrors: true, SilenceUsage: true,
		PersistentPreRunE: func(*cobra.Command, []string) error { return c.check() },
		RunE: func(cmd *cobra.Command, _ []string) error {
			_ = cmd.Help()
			return exitError{code: exitUsage}
		},
		Args: cobra.NoArgs,
	}
	f := root.PersistentFlags()
	f.StringVar(&c.url, "store", "", "URL of the store, such as sqlite:orders.db or redis://host:6379/0?prefix=flowgen ($FLOWGEN_STORE)")
	f.StringVar(&c.server, "server", "", "URL of a flowctl serve, such as https://flows.example.com, instead of a store ($FLOWGEN_SERVER)")
	f.StringVar(&c.tokens, "token-file", "", "file with the token for the server ($FLOWGEN_TOKEN or $FLOWGEN_TOKEN_FILE)")
	f.StringVarP(&c.output, "output", "o", "table", "output format: "+strings.Join(outputs, ", "))
	f.BoolVar(&c.asJSON, "json", false, "the same as --output json")
	f.DurationVar(&c.timeout, "timeout", 0, "time limit for the store; 0: 30s, or none for follow and wait")
	f.BoolVarP(&c.yes, "yes", "y", false, "do not ask for confirmation of actions that cannot be undone")
	f.IntVar(&c.journalMost, "journal-most", 0, "maximum number of journal entries; 0: $FLOWGEN_JOURNAL_MOST, or 100,000")
	f.DurationVar(&c.journalFor, "journal-for", 0, "maximum age of journal entries, such as 720h; 0: $FLOWGEN_JOURNAL_FOR, or a year")
	f.StringVar(&c.hide, "payloads", "show", "show or hide the payloads of steps and messages")
	_ = root.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(outputs, cobra.ShellCompDirectiveNoFileComp))
	_ = root.RegisterFlagCompletionFunc("payloads", cobra.FixedCompletions([]string{"show", "hide"}, cobra.ShellCompDirectiveNoFileComp))
	root.AddCommand(
		c.runs(), c.failures(), c.bulk(), c.queues(), c.workers(), c.top(), c.schedules(), c.pools(), c.catalog(), c.show(), c.follow(), c.wait(), c.start(), c.send(), c.ask(), c.value(), c.stream(), c.doctor(), c.fsck(), c.serve(), c.token(), c.schema(), c.config(),
	)
	root.AddCommand(c.ui(), c.journal(), c.alerts(), c.deploys(), c.codec(), c.export(), c.importRuns(), c.hooks(), c.views())
	root.AddCommand(c.actions()...)
	return root
}

// check validates the flags that all commands have, and the environment.
func (c *command) check() error {
	if err := c.checkOutput(); err != nil {
		return err
	}
	if err := c.readEnvironment(); err != nil {
		return err
	}
	c.ran = true
	return nil
}

// checkOutput validates the flags for the output.
func (c *command) checkOutput() error {
	if c.asJSON {
		c.output = "json"
	}
	if !slices.Contains(outputs, c.output) {
		return &admin.InputError{What: fmt.Sprintf("there is no output %q", c.output), Fix: "use one of " + strings.Join(outputs, ", ")}
	}
	if c.hide != "show" && c.hide != "hide" {
		return &admin.InputError{What: fmt.Sprintf("--payloads is %q", c.hide), Fix: "use show or hide"}
	}
	c.ran = true
	return nil
}

// service contains the operations that commands need, including those that serve the console.
// [admin.Service] implements it for the open store, and [remote.Service] for a server.
type service interface {
	console.Service

	Entities(ctx context.Context, ref string, f admin.EntityFilter) (admin.EntityPage, error)
	Graph(ctx context.Context, ref, path string) (admin.Graph, error)
	Wait(ctx context.Context, ref string, most time.Duration) (admin.Run, error)
	Value(ctx context.Context, ref, name string) (admin.Value, error)
	Streams(ctx context.Context, ref string, f admin.StreamFilter) (admin.StreamList, error)
	FollowStream(ctx context.Context, ref, name string, from uint64) iter.Seq2[admin.Chunk, error]
	PutSchedule(ctx context.Context, n admin.NewSchedule) (admin.ScheduleActed, error)
	Export(ctx context.Context, r admin.ExportRequest, w io.Writer) (admin.ExportCount, error)
}

// service opens the store and returns its service. The returned context has the time limit of the
// command. If long is true, there is no time limit by default.
func (c *command) service(ctx context.Context, long bool) (service, context.Context, context.CancelFunc, error) {
	limit := c.timeout
	if limit == 0 && !long {
		limit = 30 * time.Second
	}
	cancel := context.CancelFunc(func() {})
	if limit > 0 {
		ctx, cancel = context.WithTimeout(ctx, limit)
	}
	url, server, err := c.where()
	if err != nil {
		return nil, ctx, cancel, err
	}
	if server != "" {
		s, err := c.remote(server)
		return s, ctx, cancel, err
	}
	with, err := c.codecConfig()
	if err != nil {
		return nil, ctx, cancel, err
	}
	st, err := c.Open(ctx, url)
	if err != nil {
		return nil, ctx, cancel, err
	}
	c.store = st
	cfg, err := clientConfig(st, with)
	if err != nil {
		return nil, ctx, cancel, err
	}
	c.client = workflow.NewClient(st, cfg)
	return c.local(), ctx, cancel, nil
}

// onStore returns the service of the open store, without restrictions.
func (c *command) onStore() *admin.Service {
	return admin.New(c.client, admin.KeepJournal(c.journalMost, c.journalFor))
}

// do calls f with the service of the store or server.
func (c *command) do(cmd *cobra.Command, f func(ctx context.Context, s service) error) error {
	s, ctx, cancel, err := c.service(cmd.Context(), false)
	defer cancel()
	if err != nil {
		return err
	}
	return f(ctx, s)
}

// where returns the URL of the store or of the server. Flags have precedence over environment
// variables.
func (c *command) where() (url, server string, err error) {
	url, server = c.url, c.server
	if url == "" && server == "" {
		server = c.env.Server
		if c.env.URL != "" {
			if url, err = c.env.Complete(); err != nil {
				return "", "", &admin.InputError{What: err.Error(), Fix: "flowctl config prints all variables"}
			}
		}
	}
	switch {
	case url == "" && server == "":
		err = &admin.InputError{What: "no store is given", Fix: "give --store URL, or set FLOWGEN_STORE; or --server URL"}
	case url != "" && server != "":
		err = &admin.InputError{What: "a store and a server are given", Fix: "give either --store or --server"}
	}
	return url, server, err
}

// local returns the service of the open store that acts for the user of this process.
func (c *command) local() *admin.Service { return c.onStore().AsLocal(whoami()) }

// remote returns the service of a server.
func (c *command) remote(server string) (*remote.Service, error) {
	cfg := remote.Config{Token: strings.TrimSpace(c.env.Token)}
	if c.tokens != "" {
		b, err := os.ReadFile(c.tokens)
		if err != nil {
			return nil, &admin.InputError{What: "cannot read the token: " + err.Error(), Fix: "give the name of the file with --token-file"}
		}
		cfg.Token = strings.TrimSpace(string(b))
	}
	return remote.New(server, cfg)
}

func (c *command) close() {
	if c.store != nil {
		_ = c.client.Close() // No operation is in progress, so an error of Close is irrelevant.
		_ = c.store.Close()
	}
}

// complain prints an error to standard error.
func (c *command) complain(err error) {
	p := admin.ProblemOf(err)
	if c.jsonOut() || slices.Contains(c.Args, "--json") { // If the flags are invalid, they have not been parsed.
		_ = json.NewEncoder(c.Stderr).Encode(p)
		return
	}
	fmt.Fprintln(c.Stderr, "flowctl: "+clean(cmp.Or(p.Detail, p.Title)))
	if p.Fix != "" && !strings.Contains(p.Detail, p.Fix) {
		fmt.Fprintln(c.Stderr, "  "+clean(p.Fix))
	}
}

// print prints a value as JSON to standard output.
func (c *command) print(v any) error {
	enc := json.NewEncoder(c.Stdout)
	enc.SetEscapeHTML(false)
	if c.output == "json" {
		enc.SetIndent("", "  ")
	}
	return enc.Encode(v)
}

// jsonOut reports whether the output is JSON.
func (c *command) jsonOut() bool { return c.output == "json" || c.output == "jsonl" }

// hidden reports whether the output must not contain payloads.
func (c *command) hidden() bool { return c.hide == "hide" }
