package cli

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/runtime/codec"
	"github.com/flowgen/flowgen/runtime/ops"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// codecConfig returns the codec's configuration in the environment.
func (c *command) codecConfig() (codec.Config, error) {
	cfg, err := codec.ConfigFromEnv()
	if err != nil {
		return cfg, &admin.InputError{What: err.Error(), Fix: "correct the value, or unset the variable to work without it"}
	}
	return cfg, nil
}

// clientConfig returns the configuration of the client of an open store. The client has a codec if the
// configuration contains keys or a blob store. The blob store of an export is its file.
func clientConfig(st store.Store, cfg codec.Config) (workflow.ClientConfig, error) {
	if file, ok := store.As[interface{ Blobs() store.BlobStore }](st); ok {
		cfg.Blobs = file.Blobs()
	}
	if cfg.Keys == nil && cfg.Blobs == nil {
		return workflow.ClientConfig{}, nil
	}
	with, err := codec.New(cfg)
	return workflow.ClientConfig{Codec: with}, err
}

func (c *command) codec() *cobra.Command {
	status := c.codecStatus()
	cmd := &cobra.Command{
		Use: "codec", Short: "Count the user data of a store by key, and seal ended runs with the active key", Args: cobra.NoArgs, RunE: status.RunE,
		Long: "The keys are those in $FLOWGEN_CODEC_KEYS, or in the file that $FLOWGEN_CODEC_KEYS_FILE names, one in each line, of which the\n" +
			"first is the active key. With keys, all commands of flowctl that work on a store show user data and can retry and fork\n" +
			"sealed runs. Without keys, they show the key and the size of sealed data.\n\n" +
			"Payloads that are kept outside of the store are read from the directory that $FLOWGEN_CODEC_BLOBS names, as file:///DIRECTORY.\n" +
			"For another blob store give --server with the URL of a program that has it.",
		Example: "  flowctl codec status\n  FLOWGEN_CODEC_KEYS_FILE=keys flowctl codec reseal",
	}
	cmd.AddCommand(status, c.reseal(), c.codecKey())
	return cmd
}

// keyRow is the use of a key as JSON.
type keyRow struct {
	Key   string `json:"key"` // empty for user data that are not encrypted
	Data  int    `json:"data"`
	Bytes int64  `json:"bytes"`
	Runs  int    `json:"runs"`
	Open  int    `json:"open"`
	// Journal is the number of reasons in the journal.
	Journal int `json:"journal"`
}

// codecStatus is the output of codec status.
type codecStatus struct {
	Runs int      `json:"runs"`
	Keys []keyRow `json:"keys"`
}

// String returns a table.
func (s *codecStatus) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-20s %10s %12s %8s %8s %8s\n", "KEY", "DATA", "BYTES", "RUNS", "OPEN", "JOURNAL")
	for _, r := range s.Keys {
		fmt.Fprintf(&b, "%-20s %10d %12d %8d %8d %8d\n", cmp.Or(r.Key, "(not encrypted)"), r.Data, r.Bytes, r.Runs, r.Open, r.Journal)
	}
	fmt.Fprintf(&b, "%d runs\n", s.Runs)
	return b.String()
}

func (c *command) codecStatus() *cobra.Command {
	return c.onAllRuns(&cobra.Command{
		Use: "status", Short: "Count the user data of all runs and of the journal by key",
		Long: "Status reads all runs of the store and prints for each key the number of fields with user data, their size, the number of runs\n" +
			"and of open runs that need the key, and the number of reasons in the journal. It needs no key. A key that is not listed can be\n" +
			"removed, after the workers no longer use it. There is no time limit unless --timeout sets one.",
		Example: "  flowctl codec status\n  flowctl codec status --json",
	}, func(ctx context.Context, o *ops.Client, show func(runs int)) (fmt.Stringer, error) {
		got, err := o.CodecStatus(ctx, func(s ops.CodecStatus) { show(s.Runs) })
		status := &codecStatus{Runs: got.Runs, Keys: make([]keyRow, len(got.Keys))}
		for i, k := range got.Keys {
			status.Keys[i] = keyRow{k.Key, k.Data, k.Bytes, k.Runs, k.Open, k.Journal}
		}
		return status, err
	})
}

// resealed is the output of codec reseal.
type resealed struct {
	Runs     int `json:"runs"`
	Resealed int `json:"resealed"`
	Open     int `json:"open"`
	Journal  int `json:"journal"`
}

// String returns a line.
func (r resealed) String() string {
	return fmt.Sprintf("%d runs: %d sealed again, %d open; reasons in the journal: %d sealed again\n", r.Runs, r.Resealed, r.Open, r.Journal)
}

func (c *command) reseal() *cobra.Command {
	return c.onAllRuns(&cobra.Command{
		Use: "reseal", Short: "Seal the user data of all ended runs and of the journal with the active key",
		Long: "Reseal opens the user data of each run that has ended and seals them with the active key, with the streams of its chain. It also\n" +
			"seals data that were stored before a codec was used, and the reasons in the journal. The log of a run is replaced in one action,\n" +
			"so that reseal can be interrupted and repeated, and workers may run meanwhile. Open runs are skipped. There is no time limit\n" +
			"unless --timeout sets one.",
		Example: "  FLOWGEN_CODEC_KEYS_FILE=keys flowctl codec reseal",
	}, func(ctx context.Context, o *ops.Client, show func(runs int)) (fmt.Stringer, error) {
		got, err := o.Reseal(ctx, func(r ops.Resealed) { show(r.Runs) })
		return resealed{got.Runs, got.Changed, got.Open, got.Journal}, err
	})
}

func (c *command) codecKey() *cobra.Command {
	return &cobra.Command{
		Use: "new-key ID", Short: "Print a new key as a line of a file of keys", Args: cobra.ExactArgs(1), ValidArgsFunction: cobra.NoFileCompletions,
		Example: "  (umask 077; flowctl codec new-key k2 >keys.new; cat keys >>keys.new; mv keys.new keys)",
		RunE: func(_ *cobra.Command, args []string) error {
			key, err := codec.NewKey(args[0])
			if err != nil {
				return &admin.InputError{What: err.Error(), Fix: "give an ID such as k2 or 2026-12"}
			}
			_, err = fmt.Fprintln(c.Stdout, key.Text())
			return err
		},
	}
}

// onAllRuns completes a command that reads or writes all runs. The process that has the keys executes
// it. Therefore it needs the store and not a server. do calls show with the number of runs that it has
// read, and returns the output.
func (c *command) onAllRuns(cmd *cobra.Command, do func(ctx context.Context, o *ops.Client, show func(runs int)) (fmt.Stringer, error)) *cobra.Command {
	cmd.Args, cmd.ValidArgsFunction = cobra.NoArgs, cobra.NoFileCompletions
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		_, ctx, cancel, err := c.service(cmd.Context(), true)
		defer cancel()
		if err == nil && c.client == nil {
			err = &admin.InputError{What: "flowctl codec does not work through a server", Fix: "give the store with --store"}
		}
		if err != nil {
			return err
		}
		show := c.ticker()
		result, err := do(ctx, ops.New(c.client), func(runs int) { show(fmt.Sprintf("read %d runs", runs), false) })
		if err != nil {
			return err
		}
		if c.jsonOut() {
			return c.print(result)
		}
		_, err = fmt.Fprint(c.Stdout, result)
		return err
	}
	return cmd
}
