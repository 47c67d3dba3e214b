package flowcheck

// standardRows classifies the standard library. Each line assigns a rule to a package or to some of
// its objects:
//
//	path rule                   all functions and methods of the package
//	path rule F (T).M (T).*     functions, variables, methods and all methods of a type
//
// The most specific line applies: first the line for the method, then for its type, then for the
// package. An interface method is listed only if every implementation has the effect. An operation
// is pure if its effect cannot be determined from the call, such as a write to an [io.Writer],
// because every report must be correct.
const standardRows = `
archive/tar pure
archive/zip pure
archive/zip io OpenReader
bufio pure
bytes pure
cmp pure
compress/bzip2 pure
compress/flate pure
compress/gzip pure
compress/lzw pure
compress/zlib pure
container/heap pure
container/list pure
container/ring pure
context pure
context context Background TODO WithCancel WithCancelCause WithoutCancel WithValue
context clock WithDeadline WithDeadlineCause WithTimeout WithTimeoutCause
context goroutine AfterFunc
crypto pure
crypto/aes pure
crypto/cipher pure
crypto/des pure
crypto/dsa pure
crypto/ecdh pure
crypto/ecdsa pure
crypto/ed25519 pure
crypto/elliptic pure
crypto/fips140 pure
crypto/hkdf pure
crypto/hmac pure
crypto/hpke pure
crypto/md5 pure
crypto/mlkem pure
crypto/mlkem random GenerateKey768 GenerateKey1024 (EncapsulationKey768).Encapsulate (EncapsulationKey1024).Encapsulate
crypto/mlkem/mlkemtest pure
crypto/pbkdf2 pure
crypto/rand random
crypto/rand random Reader
crypto/rc4 pure
crypto/rsa pure
crypto/sha1 pure
crypto/sha256 pure
crypto/sha3 pure
crypto/sha512 pure
crypto/subtle pure
crypto/tls pure
crypto/tls io Dial DialWithDialer Listen LoadX509KeyPair (Dialer).Dial (Dialer).DialContext
crypto/tls io (Conn).Read (Conn).Write (Conn).Close (Conn).CloseWrite (Conn).Handshake (Conn).HandshakeContext
crypto/x509 pure
crypto/x509 io SystemCertPool
crypto/x509/pkix pure
database/sql io
database/sql pure Named Drivers (ColumnType).* (IsolationLevel).* (DB).Driver (DB).Stats (DB).SetConnMaxIdleTime (DB).SetConnMaxLifetime (DB).SetMaxIdleConns (DB).SetMaxOpenConns
database/sql pure Register OpenDB
database/sql pure (Null).* (NullBool).* (NullByte).* (NullFloat64).* (NullInt16).* (NullInt32).* (NullInt64).* (NullString).* (NullTime).* (Result).* (Scanner).*
database/sql/driver pure
debug/buildinfo pure
debug/buildinfo io ReadFile
debug/dwarf pure
debug/elf pure
debug/elf io Open
debug/gosym pure
debug/macho pure
debug/macho io Open OpenFat
debug/pe pure
debug/pe io Open
debug/plan9obj pure
debug/plan9obj io Open
embed pure
encoding pure
encoding/ascii85 pure
encoding/asn1 pure
encoding/base32 pure
encoding/base64 pure
encoding/binary pure
encoding/csv pure
encoding/gob pure
encoding/hex pure
encoding/json pure
encoding/pem pure
encoding/xml pure
errors pure
expvar pure
flag pure
flag env Parse Arg Args NArg NFlag Parsed Lookup Visit
flag exit Usage
fmt pure
fmt log Print Printf Println
fmt io Scan Scanf Scanln
go/ast pure
go/build pure
go/build io Import ImportDir (Context).Import (Context).ImportDir (Context).MatchFile
go/build/constraint pure
go/constant pure
go/doc pure
go/doc/comment pure
go/format pure
go/importer pure
go/parser pure
go/parser io ParseDir
go/printer pure
go/scanner pure
go/token pure
go/types pure
go/version pure
hash pure
hash/adler32 pure
hash/crc32 pure
hash/crc64 pure
hash/fnv pure
hash/maphash pure
hash/maphash random MakeSeed
html pure
html/template pure
html/template io ParseFiles ParseGlob (Template).ParseFiles (Template).ParseGlob
image pure
image/color pure
image/color/palette pure
image/draw pure
image/gif pure
image/jpeg pure
image/png pure
index/suffixarray pure
io pure
io/fs pure
io/ioutil io
io/ioutil pure Discard NopCloser ReadAll
iter pure
log log
log exit Fatal Fatalf Fatalln (Logger).Fatal (Logger).Fatalf (Logger).Fatalln
log pure New Flags Prefix Writer (Logger).Flags (Logger).Prefix (Logger).Writer
log/slog pure
log/slog log Debug DebugContext Info InfoContext Warn WarnContext Error ErrorContext Log LogAttrs Default With SetDefault SetLogLoggerLevel
log/syslog io
maps pure
math pure
math/big pure
math/bits pure
math/cmplx pure
math/rand random
math/rand pure New NewSource NewZipf (Rand).* (Zipf).* (Source).* (Source64).*
math/rand/v2 random
math/rand/v2 pure New NewPCG NewChaCha8 NewZipf (Rand).* (Zipf).* (PCG).* (ChaCha8).* (Source).*
mime pure
mime env TypeByExtension ExtensionsByType AddExtensionType
mime/multipart pure
mime/quotedprintable pure
net io
net pure CIDRMask IPv4 IPv4Mask ParseIP ParseCIDR ParseMAC JoinHostPort SplitHostPort TCPAddrFromAddrPort UDPAddrFromAddrPort Pipe
net pure (IP).* (IPMask).* (IPNet).* (IPAddr).* (TCPAddr).* (UDPAddr).* (UnixAddr).* (HardwareAddr).* (Flags).* (Addr).* (Error).*
net pure (AddrError).* (DNSConfigError).* (DNSError).* (InvalidAddrError).* (OpError).* (ParseError).* (UnknownNetworkError).*
net pure (Conn).LocalAddr (Conn).RemoteAddr (Listener).Addr (Dialer).MultipathTCP (Dialer).SetMultipathTCP (ListenConfig).MultipathTCP (ListenConfig).SetMultipathTCP
net/http pure
net/http io Get Head Post PostForm ListenAndServe ListenAndServeTLS Serve ServeTLS ServeFile DefaultClient DefaultTransport
net/http io (Client).Do (Client).Get (Client).Head (Client).Post (Client).PostForm (Client).CloseIdleConnections
net/http io (ClientConn).RoundTrip (Transport).RoundTrip (Transport).CloseIdleConnections (Transport).NewClientConn (RoundTripper).RoundTrip
net/http io (Server).ListenAndServe (Server).ListenAndServeTLS (Server).Serve (Server).ServeTLS (Server).Shutdown (Server).Close
net/http io (ResponseWriter).Write (ResponseWriter).WriteHeader (Flusher).Flush (Hijacker).Hijack (Pusher).Push
net/http io (ResponseController).EnableFullDuplex (ResponseController).Flush (ResponseController).Hijack (ResponseController).SetReadDeadline (ResponseController).SetWriteDeadline
net/http io (Dir).Open
net/http env ProxyFromEnvironment
net/http/cgi io
net/http/cgi pure RequestFromMap
net/http/cookiejar pure
net/http/fcgi io
net/http/fcgi pure ProcessEnv
net/http/httptest pure
net/http/httptest io NewServer NewTLSServer NewUnstartedServer (Server).*
net/http/httptrace pure
net/http/httputil pure
net/http/httputil io (ReverseProxy).ServeHTTP (ClientConn).Do (ClientConn).Read (ClientConn).Write (ServerConn).Read (ServerConn).Write
net/http/pprof io
net/mail pure
net/netip pure
net/rpc pure
net/rpc io Accept Dial DialHTTP DialHTTPPath (Client).Call (Client).Close (Client).Go (Server).Accept (Server).ServeHTTP
net/rpc/jsonrpc pure
net/rpc/jsonrpc io Dial
net/smtp io
net/smtp pure CRAMMD5Auth PlainAuth (Auth).*
net/textproto pure
net/textproto io Dial
net/url pure
os io
os env Args Clearenv Environ Executable ExpandEnv Getegid Getenv Geteuid Getgid Getgroups Getpagesize Getpid Getppid Getuid Getwd Hostname LookupEnv
os env Setenv TempDir Unsetenv UserCacheDir UserConfigDir UserHomeDir
os exit Exit
os pure DirFS Expand IsExist IsNotExist IsPathSeparator IsPermission IsTimeout NewSyscallError SameFile (LinkError).* (SyscallError).* (ProcessState).* (Signal).* (File).Fd (File).Name (Root).FS (Root).Name
os io Stdin Stdout Stderr
os/exec io
os/exec pure Command CommandContext (Cmd).Environ (Cmd).String (Error).* (ExitError).*
os/signal io
os/user env
os/user pure (UnknownGroupError).* (UnknownGroupIdError).* (UnknownUserError).* (UnknownUserIdError).*
path pure
path/filepath pure
path/filepath io EvalSymlinks Glob Walk WalkDir
path/filepath env Abs
plugin io
reflect pure
regexp pure
regexp/syntax pure
runtime pure
runtime env GOMAXPROCS NumCPU NumCgoCall NumGoroutine ReadMemStats GoroutineProfile MemProfile BlockProfile MutexProfile ThreadCreateProfile SetDefaultGOMAXPROCS
runtime exit Goexit
runtime goroutine LockOSThread UnlockOSThread
runtime/cgo pure
runtime/coverage io
runtime/debug pure
runtime/debug env ReadBuildInfo ReadGCStats
runtime/metrics env
runtime/metrics pure All (Value).*
runtime/pprof io
runtime/pprof pure Do Label ForLabels Labels SetGoroutineLabels WithLabels Lookup NewProfile Profiles (Profile).Name (Profile).Count (Profile).Add (Profile).Remove
runtime/race pure
runtime/trace pure
runtime/trace io Start Stop (FlightRecorder).Start (FlightRecorder).Stop (FlightRecorder).WriteTo
slices pure
sort pure
strconv pure
strings pure
structs pure
sync pure
sync lock (Mutex).Lock (Mutex).TryLock (RWMutex).Lock (RWMutex).TryLock (RWMutex).RLock (RWMutex).TryRLock (Locker).Lock (Cond).Wait (WaitGroup).Wait
sync goroutine (WaitGroup).Go
sync/atomic pure
syscall io
syscall env Clearenv Environ Getegid Getenv Geteuid Getgid Getgroups Getpagesize Getpgid Getpgrp Getpid Getppid Getuid Getwd Setenv Unsetenv
syscall exit Exit
syscall pure (Errno).* (Signal).* (WaitStatus).* (Timespec).* (Timeval).* (RawConn).* (Conn).*
syscall pure BytePtrFromString ByteSliceFromString StringBytePtr StringByteSlice SlicePtrFromStrings StringSlicePtr NsecToTimespec NsecToTimeval TimespecToNsec TimevalToNsec
syscall pure CmsgLen CmsgSpace ParseDirent ParseNetlinkMessage ParseNetlinkRouteAttr ParseSocketControlMessage ParseUnixCredentials ParseUnixRights UnixCredentials UnixRights
testing pure
testing/cryptotest pure
testing/fstest pure
testing/iotest pure
testing/quick pure
testing/slogtest pure
testing/synctest pure
text/scanner pure
text/tabwriter pure
text/template pure
text/template io ParseFiles ParseGlob (Template).ParseFiles (Template).ParseGlob
text/template/parse pure
time pure
time clock Now Since Until Sleep After AfterFunc Tick NewTimer NewTicker (Timer).Reset (Ticker).Reset
time env Local (Time).Local
time/tzdata pure
unicode pure
unicode/utf16 pure
unicode/utf8 pure
unique pure
unsafe pure
weak pure
`

// otherRows classifies functions of other modules. These entries override the effects that the
// analysis finds. The format is the same as in standardRows.
const otherRows = `
github.com/gofrs/uuid random Must NewV1 NewV4 NewV6 NewV7
github.com/google/uuid random New NewString NewRandom NewUUID NewV6 NewV7 NewDCEGroup NewDCEPerson NewDCESecurity
github.com/oklog/ulid/v2 random Make DefaultEntropy MustNewDefault
github.com/rs/xid random New NewWithTime
github.com/segmentio/ksuid random New NewRandom NewRandomWithTime
github.com/sirupsen/logrus log Debug Debugf Debugln Error Errorf Errorln Info Infof Infoln Print Printf Println Warn Warnf Warnln
github.com/sirupsen/logrus log (Entry).Debug (Entry).Debugf (Entry).Error (Entry).Errorf (Entry).Info (Entry).Infof (Entry).Warn (Entry).Warnf
github.com/sirupsen/logrus log (Logger).Debug (Logger).Debugf (Logger).Error (Logger).Errorf (Logger).Info (Logger).Infof (Logger).Warn (Logger).Warnf
github.com/spf13/viper env Get GetBool GetDuration GetFloat64 GetInt GetInt64 GetString GetStringMap GetStringSlice GetTime
go.uber.org/zap log (Logger).Debug (Logger).Error (Logger).Info (Logger).Warn
go.uber.org/zap log (SugaredLogger).Debug (SugaredLogger).Debugf (SugaredLogger).Debugw (SugaredLogger).Error (SugaredLogger).Errorf (SugaredLogger).Errorw
go.uber.org/zap log (SugaredLogger).Info (SugaredLogger).Infof (SugaredLogger).Infow (SugaredLogger).Warn (SugaredLogger).Warnf (SugaredLogger).Warnw
`
