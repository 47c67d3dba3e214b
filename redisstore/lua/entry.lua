-- Entry writes or removes an entry, and removes entries that its space must not keep.
--
-- KEYS  1 the entries
-- ARGV  1 the space  2 the key  3 the value, '' to remove the entry  4 '1' if the value must be
--       the one that was seen  5 the value as it was seen, '' if there was none
--       6 maximum number of entries of the space, '0' for any  7 number of entries to keep, '0' for
--       all  8 lowest key to keep, '' for any  9 maximum number of entries to remove, for either
--       reason
--
-- Returns {'ok'}. If nothing was written, it returns {'changed'} if the value is not the one that was
-- seen, {'none'} if there is no entry to remove, or {'full'} if the space has the maximum number of
-- entries.
--
-- Atomic, because the value is compared and the entries are counted in the action that writes. A
-- member consists of the space, the key and the value, separated by zero bytes. No key occurs twice.
--
-- Parts: none

local key, value = KEYS[1], ARGV[3]
local first, last = '[' .. ARGV[1] .. '\0', '(' .. ARGV[1] .. '\1' -- bounds of the space
local begin = ARGV[1] .. '\0' .. ARGV[2]
local found = redis.call('ZRANGEBYLEX', key, '[' .. begin .. '\0', '(' .. begin .. '\1')
if ARGV[4] == '1' and (found[1] and string.sub(found[1], #begin + 2) or '') ~= ARGV[5] then
  return {'changed'}
end
if not found[1] then
  if value == '' then
    return {'none'}
  end
  local most = tonumber(ARGV[6])
  if most > 0 and redis.call('ZLEXCOUNT', key, first, last) >= most then
    return {'full'}
  end
else
  redis.call('ZREMRANGEBYLEX', key, '[' .. begin .. '\0', '(' .. begin .. '\1')
end
if value ~= '' then
  redis.call('ZADD', key, '0', begin .. '\0' .. value)
end

local function trim(below, many)
  local gone = redis.call('ZRANGEBYLEX', key, first, below, 'LIMIT', '0', many)
  if gone[1] then
    redis.call('ZREMRANGEBYLEX', key, first, '[' .. gone[#gone])
  end
end
if ARGV[8] ~= '' then
  trim('(' .. ARGV[1] .. '\0' .. ARGV[8], ARGV[9])
end
local most = tonumber(ARGV[7])
local many = most > 0 and redis.call('ZLEXCOUNT', key, first, last) - most or 0
if many > 0 then
  trim(last, math.min(many, tonumber(ARGV[9])))
end
return {'ok'}
