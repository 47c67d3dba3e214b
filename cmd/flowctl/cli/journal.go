package cli

import (
	"context"
	"fmt"
	"os"
	"os/user"
	"slices"

	"github.com/spf13/cobra"

	"github.com/flowgen/flowgen/admin"
)

// whoami returns the name of the user for the journal when the store is accessed directly. It
// consists of the user name and the host name.
func whoami() string {
	name, host := fmt.Sprint("uid ", os.Getuid()), "unknown"
	if u, err := user.Current(); err == nil && u.Username != "" {
		name = u.Username
	}
	if h, err := os.Hostname(); err == nil && h != "" {
		host = h
	}
	return name + "@" + host
}

func (c *command) journal() *cobra.Command {
	var f admin.JournalFilter
	var since, until string
	cmd := &cobra.Command{
		Use: "journal", Short: "List the requests of operators, newest first", Args: cobra.NoArgs,
		Long: "Journal lists the requests that change data, including refused ones: the time, the caller, the interface, the reason and the outcome.\n" +
			"OUTCOME is ok, the code of a problem, or unknown: the caller was interrupted before it recorded the outcome, and the\n" +
			"request may have been executed.",
		Example: "  flowctl journal --since 24h --action cancel --action terminate\n  flowctl journal --target id:order-17 -o json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if f.Since, err = moment("--since", since); err != nil {
				return err
			}
			if f.Until, err = moment("--until", until); err != nil {
				return err
			}
			return c.do(cmd, func(ctx context.Context, s service) error {
				page, err := s.Journal(ctx, f)
				if err != nil {
					return err
				}
				return c.printJournal(page)
			})
		},
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&f.Principals, "principal", nil, "entries of this caller; may be repeated")
	flags.StringArrayVar(&f.Actions, "action", nil, "entries of this action; may be repeated")
	flags.StringArrayVar(&f.Outcomes, "outcome", nil, "entries with this outcome: ok, unknown, or the code of a problem; may be repeated")
	flags.StringVar(&f.Target, "target", "", "entries about the run or other object with this name")
	flags.StringVar(&since, "since", "", "entries at or after this time, such as 2026-11-24T08:00:00Z, or this long ago, such as 24h")
	flags.StringVar(&until, "until", "", "entries before this time")
	flags.IntVar(&f.Limit, "limit", 0, "maximum number of entries, up to 1,000; 0: 100")
	flags.StringVar(&f.Cursor, "cursor", "", "continue after the page that printed this cursor")
	for flag, of := range map[string]func(e *admin.JournalEntry) string{
		"principal": func(e *admin.JournalEntry) string { return e.Principal },
		"action":    func(e *admin.JournalEntry) string { return e.Action },
		"outcome":   func(e *admin.JournalEntry) string { return e.Outcome },
		"target":    func(e *admin.JournalEntry) string { return e.Target },
	} {
		_ = cmd.RegisterFlagCompletionFunc(flag, c.journaled(of))
	}
	return cmd
}

// journaled completes values from the latest entries of the journal. The function of returns the
// value of an entry.
func (c *command) journaled(of func(e *admin.JournalEntry) string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		return c.complete(cmd, func(ctx context.Context, s service) (all []string) {
			page, _ := s.Journal(ctx, admin.JournalFilter{Limit: 1000})
			for i := range page.Entries {
				if value := of(&page.Entries[i]); value != "" && value == clean(value) {
					all = append(all, value)
				}
			}
			slices.Sort(all)
			return slices.Compact(all)
		})
	}
}

func (c *command) printJournal(page admin.JournalPage) error {
	if c.output == "json" {
		return c.print(page)
	}
	printed, err := printEach(c, page.Entries, func(e *admin.JournalEntry) string { return e.ID })
	if err != nil {
		return err
	}
	if !printed {
		if err := printTable(c, admin.JournalColumns, page.Entries); err != nil {
			return err
		}
	}
	if page.Cursor != "" && c.output != "jsonl" {
		fmt.Fprintf(c.Stderr, "more results: --cursor %s\n", page.Cursor)
	}
	return nil
}
