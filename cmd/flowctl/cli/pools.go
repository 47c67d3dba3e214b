package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/flowgen/flowgen/admin"
)

func (c *command) pools() *cobra.Command {
	var f admin.PoolFilter
	cmd := &cobra.Command{
		Use: "pools [NAME]", Aliases: []string{"limits"}, Short: "List limits with the permits in use and waiting", Args: cobra.MaximumNArgs(1), ValidArgsFunction: c.poolNames,
		Long: "Pools lists the limits of the store, and for keyed limits one row per key, sorted by the weight that waits and then by\n" +
			"the weight in use. The row without a key applies to the keys that have no configuration of their own.",
		RunE: func(cmd *cobra.Command, args []string) error {
			f.Name, f.Holders = strings.Join(args, ""), true
			return c.do(cmd, func(ctx context.Context, s service) error {
				page, err := s.Pools(ctx, f)
				if err != nil {
					return err
				}
				return c.printPools(page)
			})
		},
	}
	cmd.Flags().IntVar(&f.Limit, "limit", 0, "maximum number of rows, up to 1,000; 0: 100")
	cmd.AddCommand(c.setPool(),
		c.poolAction("reset", "Reset a limit to the configuration in the code"),
		c.poolAction("pause", "Pause a limit: it grants no permits"),
		c.poolAction("resume", "Resume a paused limit"))
	return cmd
}

func (c *command) printPools(page admin.PoolPage) error {
	if c.output == "json" {
		return c.print(page)
	}
	printed, err := printEach(c, page.Pools, func(p *admin.Pool) string { return p.Name })
	if err != nil {
		return err
	}
	if !printed {
		if err := printTable(c, admin.PoolColumns, page.Pools); err != nil {
			return err
		}
	}
	if page.Partial && c.output != "jsonl" {
		fmt.Fprintln(c.Stderr, "not all open runs were read: holders may be missing")
	}
	if more := page.Total - len(page.Pools); more > 0 && c.output != "jsonl" {
		fmt.Fprintf(c.Stderr, "%d more results: give a name, or --limit\n", more)
	}
	return nil
}

func (c *command) setPool() *cobra.Command {
	var config admin.PoolConfig
	var per time.Duration
	cmd := c.poolAction("set", "Configure a limit at run time, for all workers at once")
	cmd.Use = "set NAME [AT-ONCE]"
	cmd.Args = cobra.RangeArgs(1, 2)
	cmd.Long = "Set configures a limit at run time, for all workers at once. It overrides the configuration in the code until reset.\n" +
		"It replaces the whole configuration. A larger capacity takes effect at once; with a smaller one, the runs that hold permits finish first."
	cmd.Example = "  flowctl pools set gpu 8\n  flowctl pools set customer --key ada 3\n  flowctl pools set mail --rate 100 --per 1m"
	f := cmd.Flags()
	key, reason := f.Lookup("key"), f.Lookup("reason")
	f.IntVar(&config.Rate, "rate", 0, "maximum weight that may start in the time of --per")
	f.DurationVar(&per, "per", 0, "period of --rate; 0: a second")
	f.IntVar(&config.Burst, "burst", 0, "maximum weight that --rate lets start at once; 0: the weight of 50 ms")
	f.IntVar(&config.Waiting, "waiting", 0, "maximum weight that may wait; further starts are refused; 0: no maximum")
	f.BoolVar(&config.Refuse, "refuse", false, "refuse starts that would have to wait")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		config.PerMs = per.Milliseconds()
		if len(args) > 1 {
			n, err := strconv.ParseInt(args[1], 10, 32)
			if err != nil {
				return &admin.InputError{What: fmt.Sprintf("%q is not a number", args[1]), Fix: "give the maximum weight that may be held at once, such as 8"}
			}
			config.AtOnce = int(n)
		}
		return c.actOnPool(cmd, args[0], admin.PoolAction{Verb: "set", Key: key.Value.String(), Config: &config, Reason: reason.Value.String()})
	}
	return cmd
}

func (c *command) poolAction(verb, about string) *cobra.Command {
	var key, reason string
	cmd := &cobra.Command{
		Use: verb + " NAME", Short: about, Args: cobra.ExactArgs(1), ValidArgsFunction: c.poolNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.actOnPool(cmd, args[0], admin.PoolAction{Verb: verb, Key: key, Reason: reason})
		},
	}
	cmd.Flags().StringVar(&key, "key", "", "apply to this key of the limit; empty: to the limit as a whole")
	cmd.Flags().StringVar(&reason, "reason", "", "reason, which is recorded in the journal")
	return cmd
}

func (c *command) actOnPool(cmd *cobra.Command, name string, a admin.PoolAction) error {
	return c.do(cmd, func(ctx context.Context, s service) error {
		done, err := s.ActOnPool(ctx, name, a)
		if err != nil {
			return err
		}
		if done.Unused {
			fmt.Fprintf(c.Stderr, "key %q of %s was not in use and had no configuration: check its spelling\n", clean(a.Key), clean(name))
		}
		if c.jsonOut() {
			return c.print(done)
		}
		of := clean(name)
		if a.Key != "" {
			of += " for key " + strconv.Quote(a.Key)
		}
		fmt.Fprintf(c.Stdout, "%s: %s\n", of, poolDone[a.Verb])
		return nil
	})
}

// poolDone contains the description of the result of each action, by action.
var poolDone = map[string]string{"set": "set", "reset": "reset to the configuration in the code", "pause": "paused", "resume": "resumed"}

// poolNames completes the names of limits.
func (c *command) poolNames(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return c.complete(cmd, func(ctx context.Context, s service) (all []string) {
		page, _ := s.Pools(ctx, admin.PoolFilter{Limit: 1000})
		known := map[string]bool{}
		for i := range page.Pools {
			if name := clean(page.Pools[i].Name); !known[name] {
				known[name] = true
				all = append(all, name)
			}
		}
		return all
	})
}
