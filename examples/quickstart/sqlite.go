//go:build sqlite

package main

import _ "github.com/flowgen/flowgen/sqlitestore"

func init() { defaultStore = "sqlite:quickstart.db" }
