package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/runtime/store"
)

func (c *command) migrate() *cobra.Command {
	var why admin.Because
	cmd := &cobra.Command{
		Use: "migrate", Short: "Bring a store that an older release has written up to date", Args: cobra.NoArgs,
		Long: "Migrate brings the store up to the format of this release. Stop all processes of the older release first.\n" +
			"Afterwards none of them can write. Where this release refuses the older format, none can until it has\nended; where it works with that, its processes go on. It may be interrupted and executed again, and by\n" +
			"several at once. The journal of the store gets an entry each time.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			url, err := c.theStore("migrate")
			if err != nil {
				return err
			}
			if err := c.migrateTo(cmd.Context(), url, why.Reason); err != nil {
				return err
			}
			if c.jsonOut() {
				return c.print(migrated{Current: true})
			}
			_, err = fmt.Fprintln(c.Stdout, "The store has the format of this release.")
			return err
		},
	}
	c.why(cmd, &why.Reason)
	return cmd
}

// migrated is the output of migrate as JSON.
type migrated struct {
	Current bool `json:"current"` // the store has the format of this release
}

// migrateTo brings the store up to date, with an entry in the journal. It is the one change that the entry follows: the older format may
// have no place for it, and no process of this release can write to the store before. If this one ends between the two, the
// command is executed again, as help says, and writes the entry; which formats these were it does not know any more.
func (c *command) migrateTo(ctx context.Context, url, reason string) error {
	detail, journal := "", true // which each format that is no longer current becomes one with
	before, err := c.Open(ctx, url)
	if err == nil {
		_, journal = store.As[store.Journaler](before)
		if v, ok := store.As[store.Versioned](before); ok {
			if has, newest, err := v.Format(ctx); err == nil && has != newest {
				detail = fromTo(has, newest)
			}
		}
		err = before.Close()
	}
	if old, ok := errors.AsType[*store.OldFormatError](err); ok {
		detail = fromTo(old.Got, old.Known)
	} // else it is current, or Migrate says what is wrong
	if err := admin.CheckReason("migrate", reason, journal); err != nil {
		return err
	}
	if err := store.Migrate(ctx, url); err != nil {
		return err
	}
	s, ctx, cancel, err := c.service(ctx, true)
	defer cancel()
	if err != nil {
		return err
	}
	if err := admin.Recorded(ctx, s, "migrate", detail, reason, func() error { return nil }); err != nil {
		return admin.NewProblem(admin.CodeFailed, "the store has the format of this release, but the journal cannot be written: "+err.Error(), "execute flowctl doctor, then flowctl migrate again")
	}
	return nil
}

// fromTo is how an entry in the journal names two formats.
func fromTo(has, newest int) string { return fmt.Sprintf("from format %d to %d", has, newest) }
