// Command flowctl finds, shows and controls workflow runs for operators. It uses either the store
// of a fleet or a server. Run it with --help for a list of commands.
package main

import (
	"context"
	"os"

	"github.com/flowgen/flowgen/cmd/flowctl/cli"
	_ "github.com/flowgen/flowgen/redisstore"
	_ "github.com/flowgen/flowgen/sqlitestore"
)

func main() { os.Exit(cli.Main(context.Background(), cli.Config{})) }
