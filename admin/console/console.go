package console

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"mime"
	"net"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/admin/httpauth"
	"github.com/flowgen/flowgen/admin/internal/body"
	"github.com/flowgen/flowgen/admin/internal/rate"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Config configures a Handler. With the zero value, the handler is mounted at / and answers only
// browsers on the same machine, which have all rights.
type Config struct {
	// Prefix is the path under which the handler is mounted, such as /flows/; empty means /.
	Prefix string
	// Session enables login with a token. If Session and Proxy are nil, authentication is disabled,
	// and requests from other machines and forwarded requests are refused.
	Session *httpauth.Session
	// Proxy configures a trusted proxy that authenticates requests. If it is nil, the headers of
	// proxies are ignored.
	Proxy *httpauth.Proxy
	// AllowUnauthenticated grants all rights to all requests if authentication is disabled. Set it
	// only if access is restricted by other means.
	AllowUnauthenticated bool
	// Store is the name of the store on the pages, such as orders@redis. If it is empty, the pages
	// show no name.
	Store string
	// Flags are added to the flowctl commands on the pages. An example is --store sqlite:orders.db.
	Flags string
	// CodecURL is the URL under which a codec.Handler opens sealed payloads for browsers, such as
	// https://codec.example.com. Scripts send it the sealed payloads of a page and show the answers,
	// so that this handler needs no keys. It must be https, or http on a loopback address; see
	// [CheckCodecURL]. If it is empty, pages show sealed payloads by their key and size.
	CodecURL string
	// MaxBody is the maximum size of the body of a request in bytes; 0 means
	// workflow.DefaultMaxPayload plus 64 KiB.
	MaxBody int64
	// Memory is the maximum size in bytes of the parts of logs that are cached between requests; 0
	// means 64 MiB.
	Memory int64
	// Mutations is the maximum number of forms per second with which a principal may change
	// something, and the maximum burst; 0 means 50.
	Mutations int
	// Recheck is the interval in which the login of an open page with updates is checked; 0 means 5
	// s.
	Recheck time.Duration
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Handler serves the pages of the console.
type Handler struct {
	service func(admin.Principal) Service
	cfg     Config
	mux     *http.ServeMux
	origins *http.CrossOriginProtection
	assets  *assets
	pages   *templates
	logs    *logs
	groups  *groups
	shapes  *shapes
	once    *once
	live    *live
	changes *rate.Limiter
	policy  string

	identifier httpauth.Identifier // nil if authentication is disabled
}

// New returns a handler for a service. It panics if the CodecURL of the configuration is invalid.
func New(s *admin.Service, cfg Config) *Handler {
	return Over(func(p admin.Principal) Service { return s.As(p) }, cfg)
}

// Over returns a handler that gets the service for each reader from the given function. The service
// may be a client of a server that checks the rights itself. Over panics as New does.
func Over(service func(admin.Principal) Service, cfg Config) *Handler {
	cfg.Prefix = path.Join("/", cfg.Prefix)
	if cfg.Prefix != "/" {
		cfg.Prefix += "/"
	}
	if err := CheckCodecURL(cfg.CodecURL); err != nil {
		panic("console: " + err.Error())
	}
	cfg.CodecURL = strings.TrimSuffix(cfg.CodecURL, "/")
	cfg.MaxBody = cmp.Or(cfg.MaxBody, workflow.DefaultMaxPayload+64<<10)
	cfg.Memory = cmp.Or(cfg.Memory, 64<<20)
	cfg.Recheck = cmp.Or(cfg.Recheck, 5*time.Second)
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	h := &Handler{service: service, cfg: cfg, mux: http.NewServeMux(), origins: http.NewCrossOriginProtection(), assets: theAssets(), logs: newLogs(cfg.Memory), groups: newGroups(), shapes: newShapes(cfg.Now), once: newOnce(cfg.Now)}
	h.changes = rate.New(cmp.Or(cfg.Mutations, 50), cfg.Now)
	h.policy = fmt.Sprintf(policy, originOf(cfg.CodecURL))
	h.identifier = identifier(&h.cfg)
	h.pages = newTemplates(h)
	h.live = newLive(h)
	h.mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, cfg.Prefix+"runs", http.StatusSeeOther)
	})
	for pattern, p := range pages {
		h.mux.Handle("GET "+pattern, h.page(p))
	}
	for pattern, do := range forms {
		h.mux.Handle("POST "+pattern, h.form(do))
	}
	h.mux.Handle("GET /runs/{id}/payload/{seq}", h.file(payloadFile))
	h.mux.HandleFunc("GET /live", h.live.serve)
	h.mux.Handle("/", h.page(nowhere))
	return h
}

// policy restricts a page to the resources of this handler and the origin of the codec endpoint, and
// prevents other pages from showing it in a frame.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'%s; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// CheckCodecURL returns an error unless the text is empty or a valid Config.CodecURL.
func CheckCodecURL(text string) error {
	u, err := url.Parse(text)
	local := err == nil && (u.Hostname() == "localhost" || net.ParseIP(u.Hostname()).IsLoopback())
	switch {
	case text == "":
		return nil
	case err != nil || u.Scheme != "https" && u.Scheme != "http" || !host.MatchString(u.Host) || u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return fmt.Errorf("the URL %q of the codec endpoint is invalid: write it as https://codec.example.com", text)
	case u.Scheme == "http" && !local:
		return fmt.Errorf("the URL %q of the codec endpoint would send tokens and payloads without encryption: use https", text)
	}
	return nil
}

// host matches hosts, with an optional port. It excludes characters that have a meaning in a policy.
var host = regexp.MustCompile(`^[a-zA-Z0-9.-]+(:[0-9]+)?$`)

// originOf returns the origin of the codec endpoint as a source of a policy, after a space.
func originOf(codec string) string {
	u, err := url.Parse(codec)
	if err != nil || u.Host == "" {
		return ""
	}
	return " " + u.Scheme + "://" + u.Host
}

// ServeHTTP checks the origin of a request, then its principal, then its path. The first check that
// fails determines the response.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Content-Security-Policy", h.policy)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "same-origin")
	header.Set("Cache-Control", "no-store")
	body.Within(w, r, formTime)
	rest, ok := strings.CutPrefix(r.URL.Path, h.cfg.Prefix)
	if !ok {
		if r.URL.Path+"/" == h.cfg.Prefix {
			http.Redirect(w, r, h.cfg.Prefix, http.StatusMovedPermanently)
			return
		}
		http.NotFound(w, r)
		return
	}
	below := r.Clone(r.Context())
	below.URL.Path, below.URL.RawPath = "/"+rest, ""
	if raw, ok := strings.CutPrefix(r.URL.EscapedPath(), h.cfg.Prefix); ok && raw != rest {
		below.URL.RawPath = "/" + raw
	}
	if strings.HasPrefix(below.URL.Path, "/assets/") { // the login form needs the assets
		h.assets.ServeHTTP(w, below)
		return
	}
	who, err := h.who(r)
	unknown := errors.As(err, new(*admin.UnauthenticatedError)) && h.cfg.Session != nil
	switch {
	case (err == nil || unknown) && below.URL.Path == "/login":
		h.login(w, below)
	case (err == nil || unknown) && below.URL.Path == "/logout" && r.Method == http.MethodPost:
		h.logout(w, below)
	case unknown && r.Method == http.MethodGet && below.URL.Path != "/live":
		http.Redirect(w, r, h.cfg.Prefix+"login", http.StatusSeeOther)
	case err != nil:
		h.fail(w, h.request(below, admin.Principal{}), err)
	default:
		h.mux.ServeHTTP(w, below.WithContext(withPrincipal(below.Context(), who)))
	}
}

//go:embed assets
var assetFiles embed.FS

// theAssets contains the files that all handlers share. They are compressed on first use, which
// takes 7 ms, so that programs without a console do not spend this time.
var theAssets = sync.OnceValue(readAssets)

// assets serves the files in directory assets. The URL of a file contains a hash of its contents,
// so that browsers can cache the file permanently.
type assets struct {
	names map[string]string // hashed names by file name
	files map[string]asset  // files by hashed name
}

type asset struct {
	kind        string
	text, short []byte // uncompressed and gzip-compressed contents
}

func readAssets() *assets {
	a := &assets{names: map[string]string{}, files: map[string]asset{}}
	all, err := fs.ReadDir(assetFiles, "assets")
	if err != nil {
		panic(err) // cannot happen, because the files are embedded
	}
	for _, f := range all {
		text, err := fs.ReadFile(assetFiles, "assets/"+f.Name())
		if err != nil {
			panic(err)
		}
		sum := sha256.Sum256(text)
		ext := path.Ext(f.Name())
		hashed := strings.TrimSuffix(f.Name(), ext) + "-" + hex.EncodeToString(sum[:6]) + ext
		var short bytes.Buffer
		z, _ := gzip.NewWriterLevel(&short, gzip.BestCompression) // cannot fail, because the level is valid
		_, _ = z.Write(text)                                      // writes to memory do not fail
		_ = z.Close()
		a.names[f.Name()] = hashed
		a.files[hashed] = asset{kind: mime.TypeByExtension(ext), text: text, short: short.Bytes()}
	}
	return a
}

// hashed returns the name under which a file is served.
func (a *assets) hashed(name string) string {
	hashed, ok := a.names[name]
	if !ok {
		panic("console: there is no asset " + name)
	}
	return hashed
}

func (a *assets) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f, ok := a.files[strings.TrimPrefix(r.URL.Path, "/assets/")]
	if !ok {
		http.NotFound(w, r)
		return
	}
	h := w.Header()
	h.Set("Content-Type", f.kind)
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	h.Set("Vary", "Accept-Encoding")
	text := f.text
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		h.Set("Content-Encoding", "gzip")
		text = f.short
	}
	_, _ = w.Write(text) // an error means that the browser has disconnected
}
