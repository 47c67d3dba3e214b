package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/jackc/pgx/v5"
)

// StartPostgreSQL starts a PostgreSQL server with the settings that initdb writes, whose files are
// in dir.
func StartPostgreSQL(ctx context.Context, dir string) (*Server, error) {
	bin := programs()
	if bin == "" {
		return nil, errors.New("PostgreSQL is missing: initdb is neither in the PATH nor in /usr/lib/postgresql")
	}
	who, err := servant(dir)
	if err != nil {
		return nil, err
	}
	command := func(name string, args ...string) *exec.Cmd {
		cmd := exec.Command(filepath.Join(bin, name), args...)
		cmd.Dir, cmd.SysProcAttr = dir, who
		return cmd
	}
	data := filepath.Join(dir, "data")
	if out, err := command("initdb", "-D", data, "-U", "versus", "-A", "trust", "-E", "UTF8", "--locale=C").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w: %s", err, out)
	}
	s, err := launch(ctx, dir, syscall.SIGQUIT, func(port int) *exec.Cmd {
		return command("postgres", "-D", data, "-h", "127.0.0.1", "-p", strconv.Itoa(port), "-k", dir)
	}, func(addr string) bool {
		c, err := pgx.Connect(ctx, url(addr, "postgres"))
		if err == nil {
			_ = c.Close(ctx)
		}
		return err == nil
	})
	if err != nil {
		return nil, err
	}
	s.Version = version(filepath.Join(bin, "postgres"))
	return s, nil
}

func url(addr, database string) string {
	return fmt.Sprintf("postgres://versus@%s/%s?sslmode=disable", addr, database)
}

// NewDatabase creates an empty database on a PostgreSQL server and returns its URL.
func (s *Server) NewDatabase(ctx context.Context, name string) (string, error) {
	c, err := pgx.Connect(ctx, url(s.addr, "postgres"))
	if err != nil {
		return "", err
	}
	defer c.Close(ctx)
	// A checkpoint that an earlier measurement has caused ends before the next one.
	for _, statement := range []string{"CREATE DATABASE " + pgx.Identifier{name}.Sanitize(), "CHECKPOINT"} {
		if _, err := c.Exec(ctx, statement); err != nil {
			return "", fmt.Errorf("%s: %w", statement, err)
		}
	}
	return url(s.addr, name), nil
}

// DropDatabase removes a database of a PostgreSQL server.
func (s *Server) DropDatabase(ctx context.Context, name string) error {
	c, err := pgx.Connect(ctx, url(s.addr, "postgres"))
	if err != nil {
		return err
	}
	defer c.Close(ctx)
	_, err = c.Exec(ctx, "DROP DATABASE "+pgx.Identifier{name}.Sanitize()+" WITH (FORCE)")
	return err
}

// programs returns the directory of the PostgreSQL programs, or "" if they are not installed.
func programs() string {
	if path, err := exec.LookPath("initdb"); err == nil {
		if target, err := filepath.EvalSymlinks(path); err == nil {
			return filepath.Dir(target)
		}
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if len(found) == 0 {
		return ""
	}
	return filepath.Dir(found[len(found)-1])
}

// servant returns the user that runs the server and makes it the owner of dir, because PostgreSQL
// refuses to run as root.
func servant(dir string) (*syscall.SysProcAttr, error) {
	if os.Getuid() != 0 {
		return &syscall.SysProcAttr{}, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return nil, fmt.Errorf("PostgreSQL does not run as root: %w", err)
	}
	uid, err1 := strconv.Atoi(u.Uid)
	gid, err2 := strconv.Atoi(u.Gid)
	if err := errors.Join(err1, err2); err != nil {
		return nil, fmt.Errorf("read the ids of user postgres: %w", err)
	}
	who := &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	return who, os.Chown(dir, uid, gid)
}
