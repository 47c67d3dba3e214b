// Package io has workflow code that reaches out of the process.
package io

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/flowgen/flowgen/flowcheck/testdata/seeded/shop"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Store has what the code reaches for.
type Store struct {
	db     *sql.DB
	client *http.Client
	conn   net.Conn
}

// rates reads a file.
//
//flow:workflow
func rates(ctx workflow.Context, customer string) error {
	text, err := os.ReadFile("rates.json") // want `^os.ReadFile reaches out of the process, again in every replay: do it in a step \[io\]$`
	if err != nil {
		return err
	}
	return shop.Notify(ctx, customer, string(text))
}

// saved writes a file.
//
//flow:workflow
func saved(ctx workflow.Context, order shop.Order) error {
	f, err := os.Create(order.ID + ".json") // want `^os.Create reaches`
	if err != nil {
		return err
	}
	if err := json.NewEncoder(f).Encode(order); err != nil {
		return err
	}
	return f.Close() // want `^os.File.Close reaches`
}

// fetched asks a server.
//
//flow:workflow
func fetched(ctx workflow.Context, url string) error {
	resp, err := http.Get(url) // want `^http.Get reaches`
	if err != nil {
		return err
	}
	return shop.Notify(ctx, "ops", resp.Status)
}

// asked has a client.
func (s *Store) asked(ctx workflow.Context, url string) error {
	req, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := s.client.Do(req) // want `^http.Client.Do reaches`
	if err != nil {
		return err
	}
	return shop.Notify(ctx, "ops", resp.Status)
}

// queried asks a database.
func (s *Store) queried(ctx workflow.Context, id string) error {
	var name string
	if err := s.db.QueryRow("select name from customers where id = ?", id).Scan(&name); err != nil { // want `^sql.DB.QueryRow reaches` `^sql.Row.Scan reaches`
		return err
	}
	return shop.Notify(ctx, name, "hello")
}

// told writes to a connection, which is an interface.
func (s *Store) told(ctx workflow.Context, text string) error {
	if _, err := s.conn.Write([]byte(text)); err != nil { // want `^net.Conn.Write reaches`
		return err
	}
	return shop.Notify(ctx, "ops", "told")
}

// built runs a program.
//
//flow:workflow
func built(ctx workflow.Context, dir string) error {
	out, err := exec.Command("make", "-C", dir).CombinedOutput() // want `^exec.Cmd.CombinedOutput reaches`
	if err != nil {
		return err
	}
	return shop.Notify(ctx, "ops", string(out))
}

// listed looks for files.
//
//flow:workflow
func listed(ctx workflow.Context, dir string) error {
	names, err := filepath.Glob(filepath.Join(dir, "*.csv")) // want `^filepath.Glob reaches`
	if err != nil {
		return err
	}
	return shop.Release(ctx, names)
}

// looked asks for an address.
//
//flow:workflow
func looked(ctx workflow.Context, host string) error {
	addresses, err := net.LookupHost(host) // want `^net.LookupHost reaches`
	if err != nil {
		return err
	}
	return shop.Notify(ctx, "ops", strings.Join(addresses, " "))
}

// printed writes to the error output.
//
//flow:workflow
func printed(ctx workflow.Context, text string) error {
	fmt.Fprintln(os.Stderr, text) // want `^os.Stderr reaches`
	return shop.Notify(ctx, "ops", text)
}

// helped has a helper in a literal, and that has another one.
//
//flow:workflow
func helped(ctx workflow.Context, order shop.Order) error {
	load := func(name string) ([]byte, error) { return readAll(name) } // want `^io.readAll → os.File.Close \(read.go:\d+\) reaches`
	text, err := load(order.ID)
	if err != nil {
		return err
	}
	return shop.Notify(ctx, order.Customer, string(text))
}

// cleaned removes a file at the end.
//
//flow:workflow
func cleaned(ctx workflow.Context, order shop.Order) error {
	defer os.Remove(order.ID + ".json") // want `^os.Remove reaches`
	return shop.Notify(ctx, order.Customer, "thanks")
}
