package codec

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"runtime"
	"strings"

	"github.com/flowgen/flowgen/internal/environ"
)

// environment contains the settings of this package that environment variables can set.
type environment struct {
	Keys  string `env:"FLOWGEN_CODEC_KEYS" secret:"yes"`
	Blobs string `env:"FLOWGEN_CODEC_BLOBS"`
}

// ConfigFromEnv returns a configuration with the keys of [KeysFromEnv], and with a [FileBlobs] in the
// directory that the environment variable FLOWGEN_CODEC_BLOBS names in the form file:///DIRECTORY. The
// directory must exist. What is not set is nil: if the environment sets neither, the result is the zero
// Config. Errors are a *store.VariableError.
func ConfigFromEnv() (Config, error) {
	var env environment
	settings, errs := environ.Read(&env)
	if err := errors.Join(errs...); err != nil {
		return Config{}, err
	}
	var cfg Config
	var err error
	if env.Keys != "" {
		if cfg.Keys, err = KeysFromEnv(); err != nil {
			return Config{}, err
		}
	}
	if env.Blobs != "" {
		blobs, err := openBlobs(env.Blobs)
		if err != nil {
			return Config{}, &environ.ValueError{Name: settings[1].Name, Value: env.Blobs, What: fmt.Sprintf("is %q, which cannot be used (%v)", env.Blobs, err), Want: wantBlobs, Err: err}
		}
		cfg.Blobs = blobs
	}
	return cfg, nil
}

const wantBlobs = "file:///DIRECTORY with the path of an existing directory; to use other blob stores, serve package admin/api in a program that has them, and give flowctl its URL with --server"

// openBlobs opens the blob store of a URL. It does not create a directory, because blobs would seem to
// be missing in a directory that is misspelled.
func openBlobs(text string) (*FileBlobs, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, errors.New("it is not a URL")
	}
	dir := u.Path
	if runtime.GOOS == "windows" {
		dir = strings.TrimPrefix(dir, "/") // of file:///C:/blobs
	}
	if u.Scheme != "file" || u.Host != "" || dir == "" || u.RawQuery != "" {
		return nil, errors.New("it does not begin with file:///")
	}
	if info, err := os.Stat(dir); err != nil {
		return nil, err
	} else if !info.IsDir() {
		return nil, fmt.Errorf("%s is not a directory", dir)
	}
	return NewFileBlobs(dir)
}

// KeysFromEnv returns a provider of the keys in the environment variable FLOWGEN_CODEC_KEYS, which
// has the form of the file of [KeysFromFile]; a comma or semicolon may replace a line break. If
// FLOWGEN_CODEC_KEYS_FILE is set instead, the result is that of KeysFromFile. If neither is set, or
// the keys are invalid, the error is a *store.VariableError.
func KeysFromEnv() (KeyProvider, error) {
	var env environment
	settings, errs := environ.Read(&env)
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	s := settings[0]
	invalid := func(name string, err error) error {
		return &environ.ValueError{Name: name, What: fmt.Sprintf("is invalid (%v)", err), Want: "lines of the form ID BASE64, of which the first is the active key", Err: err}
	}
	switch {
	case s.Source == environ.File:
		keys, err := KeysFromFile(s.File)
		if err != nil {
			return nil, invalid(s.Name+"_FILE", err)
		}
		return keys, nil
	case env.Keys == "":
		return nil, &environ.ValueError{Name: s.Name, What: "is not set, nor is " + s.Name + "_FILE", Want: "keys in one of them"}
	}
	keys, err := parseKeys("the value", strings.NewReplacer(",", "\n", ";", "\n").Replace(env.Keys))
	if err != nil {
		return nil, invalid(s.Name, err)
	}
	return keys, nil
}
