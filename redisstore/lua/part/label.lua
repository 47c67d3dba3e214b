-- label_sets returns the sets of the labels of a run: one for its workflow ID in the stored form,
-- and one for each of its tags, which are packed as value.go does, either in the metadata or in an
-- extra key. Unreadable data has no label. trouble.go uses the same names.
local function label_sets(run, wid, packed)
  local sets = {}
  local function name_set(label)
    sets[#sets + 1] = tag .. 'M:' .. string.sub(redis.sha1hex(label), 1, 16)
  end
  if wid then
    name_set('w' .. wid)
  end
  if packed == '+' then
    packed = redis.pcall('GET', tag .. 'x:' .. run)
  end
  if type(packed) ~= 'string' then
    return sets
  end
  -- behind returns the index after the text that begins at the given index.
  local function behind(at)
    local size, from = string.match(packed, '^(%d+):()', at)
    return size and from + size
  end
  local at = behind(1) -- the first text is a long workflow ID, or empty
  while at and at <= #packed do
    local value = behind(at)
    local rest = value and behind(value)
    if rest and rest <= #packed + 1 then
      name_set(string.sub(packed, at, rest - 1))
    end
    at = rest
  end
  return sets
end
