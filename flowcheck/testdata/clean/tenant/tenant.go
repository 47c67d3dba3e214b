// Package tenant sets up what a new customer needs.
package tenant

import (
	"context"
	"database/sql"
	"os"
	"strconv"
	"strings"
	"sync"

	"github.com/flowgen/flowgen/runtime/workflow"
)

// Tenant is a customer.
type Tenant struct {
	Name, Region string
	Users        []string
}

// Cloud is where things are made.
type Cloud struct {
	mu    sync.Mutex
	calls int
	db    *sql.DB
}

//flow:step nonidempotent
func (c *Cloud) database(ctx context.Context, name, region string) (string, error) {
	c.mu.Lock()
	c.calls++
	c.mu.Unlock()
	_, err := c.db.ExecContext(ctx, "create database "+name)
	return name + "." + region, err
}

//flow:step key=user
func (c *Cloud) invite(ctx context.Context, tenant, user string) error { return ctx.Err() }

//flow:step
func (c *Cloud) drop(ctx context.Context, database string) error { return ctx.Err() }

// setUp undoes the database if the users cannot be invited.
//
//flow:workflow
func setUp(ctx workflow.Context, t Tenant) (string, error) {
	host, err := workflow.Record(ctx, os.Hostname)
	if err != nil {
		return "", err
	}
	workflow.Logger(ctx).Info("began", "host", host, "tenant", t.Name)
	database, err := Database(ctx, strings.ToLower(t.Name)+"_"+strconv.Itoa(len(t.Users)), t.Region)
	if err != nil {
		return "", err
	}
	workflow.Compensate(ctx, func(ctx workflow.Context) error { return Drop(ctx, database) })
	return database, workflow.ForEach(ctx, t.Users, func(ctx workflow.Context, user string) error {
		return Invite(ctx, t.Name, user)
	})
}
