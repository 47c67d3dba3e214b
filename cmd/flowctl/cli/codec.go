package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/runtime/codec"
	"github.com/flowgen/flowgen/runtime/ops"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// clientConfig returns the configuration of the client of the store. The client has a codec if the
// environment contains keys.
func (c *command) clientConfig() (workflow.ClientConfig, error) {
	if c.env.CodecKeys == "" {
		return workflow.ClientConfig{}, nil
	}
	keys, err := codec.KeysFromEnv()
	if err != nil {
		return workflow.ClientConfig{}, &admin.InputError{What: err.Error(), Fix: "correct the keys, or unset the variable to work without them"}
	}
	with, err := codec.New(codec.Config{Keys: keys})
	return workflow.ClientConfig{Codec: with}, err
}

func (c *command) codec() *cobra.Command {
	status := c.codecStatus()
	cmd := &cobra.Command{
		Use: "codec", Short: "Count the user data of a store by key, and seal ended runs with the active key", Args: cobra.NoArgs, RunE: status.RunE,
		Long: "The keys are those in $FLOWGEN_CODEC_KEYS, or in the file that $FLOWGEN_CODEC_KEYS_FILE names, one in each line, of which the\n" +
			"first is the active key. With keys, all commands of flowctl that work on a store show user data and can retry and fork\n" +
			"sealed runs. Without keys, they show the key and the size of sealed data.",
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
}

func (c *command) codecStatus() *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "Count the user data of all runs by key", Args: cobra.NoArgs, ValidArgsFunction: cobra.NoFileCompletions,
		Long: "Status reads all runs of the store and prints for each key the number of fields with user data, their size, and the number of\n" +
			"runs and of open runs that need the key. It needs no key. A key that is not listed can be removed, after the workers no longer\n" +
			"use it. There is no time limit unless --timeout sets one.",
		Example: "  flowctl codec status\n  flowctl codec status --json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			o, done, err := c.operators(cmd)
			defer done()
			if err != nil {
				return err
			}
			show := c.ticker()
			got, err := o.CodecStatus(cmd.Context(), func(s ops.CodecStatus) { show(fmt.Sprintf("read %d runs", s.Runs), false) })
			if err != nil {
				return err
			}
			rows := make([]keyRow, len(got.Keys))
			for i, k := range got.Keys {
				rows[i] = keyRow{k.Key, k.Data, k.Bytes, k.Runs, k.Open}
			}
			if c.jsonOut() {
				return c.print(map[string]any{"runs": got.Runs, "keys": rows})
			}
			fmt.Fprintf(c.Stdout, "%-20s %10s %12s %8s %8s\n", "KEY", "DATA", "BYTES", "RUNS", "OPEN")
			for _, r := range rows {
				key := r.Key
				if key == "" {
					key = "(not encrypted)"
				}
				fmt.Fprintf(c.Stdout, "%-20s %10d %12d %8d %8d\n", key, r.Data, r.Bytes, r.Runs, r.Open)
			}
			fmt.Fprintf(c.Stdout, "%d runs\n", got.Runs)
			return nil
		},
	}
}

func (c *command) reseal() *cobra.Command {
	return &cobra.Command{
		Use: "reseal", Short: "Seal the user data of all ended runs with the active key", Args: cobra.NoArgs, ValidArgsFunction: cobra.NoFileCompletions,
		Long: "Reseal opens the user data of each run that has ended and seals them with the active key, with the streams of its chain. It also\n" +
			"seals data that were stored before a codec was used. The log of a run is replaced in one action, so that reseal can be\n" +
			"interrupted and repeated, and workers may run meanwhile. Open runs are skipped. There is no time limit unless --timeout sets one.",
		Example: "  FLOWGEN_CODEC_KEYS_FILE=keys flowctl codec reseal",
		RunE: func(cmd *cobra.Command, _ []string) error {
			o, done, err := c.operators(cmd)
			defer done()
			if err != nil {
				return err
			}
			show := c.ticker()
			got, err := o.Reseal(cmd.Context(), func(r ops.Resealed) { show(fmt.Sprintf("read %d runs", r.Runs), false) })
			if err != nil {
				return err
			}
			if c.jsonOut() {
				return c.print(map[string]int{"runs": got.Runs, "resealed": got.Changed, "open": got.Open})
			}
			fmt.Fprintf(c.Stdout, "%d runs: %d sealed again, %d open\n", got.Runs, got.Changed, got.Open)
			return nil
		},
	}
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

// operators returns the operators' client of the store. The commands of this file read or write all
// runs, and are executed by the process that has the keys. Therefore they need the store and not a
// server.
func (c *command) operators(cmd *cobra.Command) (*ops.Client, func(), error) {
	_, _, cancel, err := c.service(cmd.Context(), true)
	if err == nil && c.client == nil {
		err = &admin.InputError{What: "flowctl codec does not work through a server", Fix: "give the store with --store"}
	}
	if err != nil {
		return nil, cancel, err
	}
	return ops.New(c.client), cancel, nil
}
