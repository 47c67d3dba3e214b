// Package sqlstep lets a step have its effect on a SQL database exactly once.
//
// A step that completed may be executed again if its worker dies before that was
// recorded. [Do] does the work of the step in one transaction together with a record
// of it in the same database, under the step's idempotency key: whoever executes the
// step again finds the record, and gets the result that was returned the first time.
//
// Databases: PostgreSQL and SQLite, by any driver of database/sql. The records are
// in a table that is made when it is missing:
//
//	CREATE TABLE flowgen_steps (
//		idempotency_key varchar(32) PRIMARY KEY,
//		step            text NOT NULL,
//		result          text,
//		created         bigint NOT NULL -- seconds since 1970, by the database's clock
//	)
package sqlstep
