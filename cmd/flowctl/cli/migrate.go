package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/flowgen/flowgen/runtime/store"
)

func (c *command) migrate() *cobra.Command {
	return &cobra.Command{
		Use: "migrate", Short: "Bring a store that an older release has written up to date", Args: cobra.NoArgs,
		Long: "Migrate brings the store up to the format of this release. Stop all processes of the older release first.\n" +
			"Afterwards none of them can write; until it has ended, neither can those of this release. It may be\ninterrupted and executed again, and by several at once.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			url, err := c.theStore("migrate")
			if err != nil {
				return err
			}
			if err := store.Migrate(cmd.Context(), url); err != nil {
				return err
			}
			_, err = fmt.Fprintln(c.Stdout, "The store has the format of this release.")
			return err
		},
	}
}
