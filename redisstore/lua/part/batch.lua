-- KEYS and ARGV are those of the operation that is executed, and tag is the common prefix of the
-- keys of its partition. Parts and operations use them in place of the variables of the script.
local KEYS, ARGV, tag
-- Part: intact clock header ready compact sets index enlist add lost
-- Operation: append
-- Operation: finish
-- Operation: create

local operations = {a = append, f = finish, c = create}

-- answers contains the answers of the operations, and current is the number of the operation that
-- is executed. pending contains the index command of each key that is not executed yet, and keys
-- contains these keys in their order. named contains the routes whose names were stored, and open
-- whether each session is open.
local answers, current, pending, keys, named, open

-- failed returns the answer of an operation that ended with an error. The text of an error begins
-- with its kind. A nested error would be an answer that go-redis cannot always read.
local function failed(err)
  local text = type(err) == 'table' and err.err or tostring(err)
  return {'!', string.find(text, '^%u+ ') and text or 'ERR ' .. text}
end

-- execute executes the pending command of a key. If it fails, so do the operations that it belongs
-- to; index skips an overwritten key.
local function execute(p)
  local reply = redis.pcall(unpack(p))
  if type(reply) == 'table' and reply.err and not (p.skips and string.find(reply.err, '^WRONGTYPE')) then
    for _, i in ipairs(p.operations) do
      answers[i] = failed(reply)
    end
  end
end

-- later adds the arguments of a command to the pending command of its key. Commands of different
-- kinds on a key keep their order.
local function later(skips, command, key, a, b)
  local p = pending[key]
  if p and (p[1] ~= command or p.skips ~= skips) then
    execute(p)
    p = nil
  elseif not p then
    keys[#keys + 1] = key
  end
  if not p then
    p = {command, key, skips = skips, operations = {}}
    pending[key] = p
  end
  p[#p + 1] = a
  p[#p + 1] = b
  p.operations[#p.operations + 1] = current
end

index = function(command, key, a, b)
  later(true, command, key, a, b)
end

enlist = function(command, key, a, b)
  later(false, command, key, a, b)
end

name_route = function(route, name)
  local key = tag .. 'k'
  if not named[key .. route] then
    redis.call('HSETNX', key, route, name)
    named[key .. route] = true
  end
end

local look = is_open
is_open = function(session)
  if open[session] == nil then
    open[session] = look(session)
  end
  return open[session]
end

-- batch executes the operations of a message. A function of a library keeps its variables between
-- its calls, so batch sets those that parts change.
local function batch(message)
  answers, pending, keys, named, open = {}, {}, {}, {}, {}
  server_time, overwritten, findings, tag = nil, {}, {}, nil
  local i = 1
  while i < #message do
    local operation, k, n = operations[string.sub(message[i], 1, 1)], string.byte(message[i], 2, 3)
    KEYS, ARGV = {unpack(message, i + 1, i + k)}, {unpack(message, i + k + 1, i + k + n)}
    i = i + k + n + 1
    local prefix = string.match(KEYS[1], '^[^}]+}%d*')
    if prefix ~= tag then
      tag, unannounced, announced = prefix, {}, {}
    end
    current = #answers + 1
    local fine, answer = pcall(operation)
    answers[current] = fine and answer or failed(answer)
  end
  for _, key in ipairs(keys) do
    execute(pending[key])
  end
  return answers
end
