// Command flowctl is for those who operate workflows: it works with the store of a fleet. Run it with --help.
package main

import (
	"context"
	"os"

	"github.com/flowgen/flowgen/cmd/flowctl/cli"
	_ "github.com/flowgen/flowgen/redisstore"
	_ "github.com/flowgen/flowgen/sqlitestore"
)

func main() { os.Exit(cli.Main(context.Background(), cli.Config{})) }
