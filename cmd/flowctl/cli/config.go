package cli

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/admin/console"
	"github.com/flowgen/flowgen/internal/environ"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// environment contains the settings of flowctl that environment variables can set.
type environment struct {
	store.Location

	// Server is the URL of a flowctl serve, which flowctl uses instead of a store.
	Server string `env:"FLOWGEN_SERVER" secret:"url"`
	// Token is the token for the server.
	Token string `env:"FLOWGEN_TOKEN" secret:"yes"`
	// CodecKeys contains the keys of encrypted payloads, as lines of the form ID BASE64. The first key
	// encrypts payloads, all keys decrypt them.
	CodecKeys string `env:"FLOWGEN_CODEC_KEYS" secret:"yes"`
	// CodecBlobs is the directory of payloads that are kept outside of the store, in the form
	// file:///DIRECTORY.
	CodecBlobs string `env:"FLOWGEN_CODEC_BLOBS"`
	// CodecEndpoint is the URL under which a codec.Handler opens sealed payloads for the web console.
	CodecEndpoint string `env:"FLOWGEN_CODEC_ENDPOINT"`
	// JournalMost is the maximum number of journal entries. Use the same value in all processes.
	JournalMost int `env:"FLOWGEN_JOURNAL_MOST" default:"100000"`
	// JournalFor is the maximum age of journal entries. Use the same value in all processes.
	JournalFor time.Duration `env:"FLOWGEN_JOURNAL_FOR" default:"8760h"`
}

// readEnvironment reads the environment variables.
func (c *command) readEnvironment() error {
	if err := environ.Load(&c.env); err != nil {
		return &admin.InputError{What: strings.ReplaceAll(err.Error(), "\n", "; "), Fix: "flowctl config prints all variables"}
	}
	environ.SetDefaults(&c.env)
	if c.journalMost < 0 || c.journalFor < 0 {
		return &admin.InputError{
			What: fmt.Sprintf("--journal-most is %d and --journal-for is %v", c.journalMost, c.journalFor),
			Fix:  "give a maximum number of entries, such as 100000, and a maximum age, such as 8760h",
		}
	}
	if err := console.CheckCodecURL(c.env.CodecEndpoint); err != nil {
		return &admin.InputError{What: err.Error(), Fix: "correct FLOWGEN_CODEC_ENDPOINT"}
	}
	c.journalMost, c.journalFor = cmp.Or(c.journalMost, c.env.JournalMost), cmp.Or(c.journalFor, c.env.JournalFor)
	return nil
}

// configuration is the output of the command config.
type configuration struct {
	Settings []setting `json:"settings"`
	Problems []string  `json:"problems,omitempty"` // invalid values and unknown variables
}

// setting is the value of an environment variable, or the value that has been used in its place.
type setting struct {
	Name   string         `json:"name"`            // of the variable
	Value  string         `json:"value,omitempty"` // without passwords
	Source environ.Source `json:"source"`          // default, variable, file or flag
	From   string         `json:"from,omitempty"`  // path of the file, or name of the flag
}

const flagSource environ.Source = "flag"

func (c *command) config() *cobra.Command {
	return &cobra.Command{
		Use: "config", Short: "Print the configuration by environment variables, and the source of each value", Args: cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		Long: "Config prints the value of each FLOWGEN_* environment variable in the environment of this process, for programs with workers\n" +
			"as well as for flowctl. SOURCE is default, variable, file (the path is in the variable with the suffix _FILE), or a flag of\n" +
			"flowctl, which is not a setting of workers. Passwords and tokens are not printed. Config opens no store.\n\n" +
			"The exit code is 7 if a value is invalid or a variable is unknown.",
		Example:           "  flowctl config\n  env -i FLOWGEN_WORKER_GRACE=1m flowctl config --json",
		PersistentPreRunE: func(*cobra.Command, []string) error { return c.checkOutput() }, // Config reports the problems that other commands refuse.
		RunE: func(cmd *cobra.Command, _ []string) error {
			found := configuration{Settings: c.settings(cmd), Problems: problems()}
			if err := c.printConfiguration(&found); err != nil {
				return err
			}
			if len(found.Problems) > 0 {
				return exitError{code: exitFound}
			}
			return nil
		},
	}
}

// settings returns the settings of all programs. Flags replace environment variables.
func (c *command) settings(cmd *cobra.Command) (all []setting) {
	for _, cfg := range []any{&environment{}, &workflow.ClientConfig{}, &worker.Config{}} {
		read, _ := environ.Read(cfg) // problems reports the errors.
		for _, s := range read {
			all = append(all, setting{s.Name, s.Value, s.Source, s.File})
		}
	}
	replace := func(name, value, flag string) {
		i := slices.IndexFunc(all, func(s setting) bool { return s.Name == name })
		if all[i] = (setting{name, value, flagSource, flag}); value == "" {
			all[i] = setting{Name: name, Source: environ.Default}
		}
	}
	if c.url != "" || c.server != "" { // Either flag replaces the whole location.
		replace("FLOWGEN_STORE", environ.HidePassword(c.url), "--store")
		replace("FLOWGEN_STORE_PASSWORD", "", "")
		replace("FLOWGEN_SERVER", environ.HidePassword(c.server), "--server")
	}
	for flag, name := range map[string]string{"journal-most": "FLOWGEN_JOURNAL_MOST", "journal-for": "FLOWGEN_JOURNAL_FOR"} {
		if f := cmd.Flags().Lookup(flag); f.Changed {
			replace(name, f.Value.String(), "--"+flag)
		}
	}
	if c.tokens != "" {
		replace("FLOWGEN_TOKEN", environ.Hidden, "--token-file "+c.tokens)
	}
	return all
}

// problems returns the errors that programs with this environment return.
func problems() (all []string) {
	var env environment
	_, clientErr := workflow.ClientConfigFromEnv()
	_, workerErr := worker.ConfigFromEnv()
	errs := []error{environ.Load(&env), clientErr, workerErr}
	if env.URL != "" {
		_, err := env.Complete()
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		all = strings.Split(err.Error(), "\n")
		slices.Sort(all)
	}
	return slices.Compact(all) // Each function reports the unknown variables.
}

func (c *command) printConfiguration(found *configuration) error {
	if c.output == "json" {
		return c.print(found)
	}
	printed, err := printEach(c, found.Settings, func(s *setting) string { return s.Name })
	if err == nil && !printed {
		t := newTable(c.Stdout, "VARIABLE", "VALUE", "SOURCE")
		for _, s := range found.Settings {
			t.row(s.Name, cmp.Or(s.Value, "-"), strings.TrimSpace(string(s.Source)+" "+s.From))
		}
		err = t.end()
	}
	for _, p := range found.Problems {
		fmt.Fprintln(c.Stderr, "flowctl: "+clean(p))
	}
	return err
}
