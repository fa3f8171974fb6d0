// Groups, infos, attributes, error codes and error handlers of MPI, through their bodies.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "mpi/calls.h"
#include "mpi/comms/comm.h"
#include "mpi/comms/group.h"
#include "mpi/core/errhandler.h"
#include "mpi/core/info.h"
#include "mpi/core/predefined.h"
#include "mpi_abi.h"

using namespace holdfast::mpi;

namespace {

Group* group_of(std::vector<int> processes) {
  return process().registry.make<Group>(std::move(processes));
}

std::string text_of(TestCall& call, Info* info, const char* key, int most) {
  std::string value(static_cast<std::size_t>(most) + 1, '#');
  bool found = false;
  const TextOut out(value.data(), static_cast<std::int64_t>(value.size()), nullptr);
  if (body::Info_get(call, info, key, most, out, found) != kSuccess || !found) return "-";
  return value.c_str();
}

}  // namespace

TEST_CASE("a group finds each of its members, and no one else") {
  std::vector<int> backwards;
  for (int i = 0; i < 40; ++i) backwards.push_back(100 - 2 * i);
  const std::vector<std::vector<int>> all{{}, {7}, {3, 4, 5}, {5, 1, 9}, backwards};
  for (const std::vector<int>& members : all) {
    Group* group = group_of(members);
    std::vector<int> found(120, kUndefined);
    for (int rank = 0; rank < group->size(); ++rank) {
      found[static_cast<std::size_t>(group->process(rank))] = rank;
    }
    for (int process = -5; process < 120; ++process) {
      const int expected = process < 0 ? kUndefined : found[static_cast<std::size_t>(process)];
      CHECK(group->rank_of(process) == expected);
    }
    TestCall call;
    CHECK(body::Group_free(call, group) == kSuccess);
    CHECK(group == nullptr);
  }
}

TEST_CASE("groups combine in the order of the first") {
  Group* a = group_of({4, 2, 0});
  Group* b = group_of({1, 2, 3, 4});
  TestCall call;
  Group* made = nullptr;
  CHECK(body::Group_union(call, a, b, made) == kSuccess);
  CHECK(made->processes() == std::vector<int>{4, 2, 0, 1, 3});
  CHECK(body::Group_intersection(call, a, b, made) == kSuccess);
  CHECK(made->processes() == std::vector<int>{4, 2});
  CHECK(body::Group_difference(call, b, a, made) == kSuccess);
  CHECK(made->processes() == std::vector<int>{1, 3});
  CHECK(body::Group_difference(call, b, b, made) == kSuccess);
  CHECK(made->number == kGroupEmpty);

  int result = 0;
  Group* turned = group_of({0, 2, 4});
  CHECK(body::Group_compare(call, a, turned, result) == kSuccess);
  CHECK(result == kSimilar);
  CHECK(body::Group_compare(call, a, b, result) == kSuccess);
  CHECK(result == kUnequal);
  CHECK(body::Group_compare(call, a, a, result) == kSuccess);
  CHECK(result == kIdent);
}

TEST_CASE("ranks and ranges are taken out and left out") {
  Group* group = group_of({10, 11, 12, 13, 14, 15});
  TestCall call;
  Group* made = nullptr;
  const int ranks[] = {4, 0};
  CHECK(body::Group_incl(call, group, 2, ints(ranks), made) == kSuccess);
  CHECK(made->processes() == std::vector<int>{14, 10});
  CHECK(body::Group_excl(call, group, 2, ints(ranks), made) == kSuccess);
  CHECK(made->processes() == std::vector<int>{11, 12, 13, 15});
  const int ranges[] = {5, 2, -2, 0, 1, 1};
  CHECK(body::Group_range_incl(call, group, 2, ints(ranges), made) == kSuccess);
  CHECK(made->processes() == std::vector<int>{15, 13, 10, 11});
  CHECK(body::Group_range_excl(call, group, 2, ints(ranges), made) == kSuccess);
  CHECK(made->processes() == std::vector<int>{12, 14});

  const int wanted[] = {3, kProcNull, 5};
  int translated[3];
  Group* other = group_of({15, 13});
  CHECK(body::Group_translate_ranks(call, group, 3, ints(wanted), other, out_ints(translated)) ==
        kSuccess);
  CHECK(translated[0] == 1);
  CHECK(translated[1] == kProcNull);
  CHECK(translated[2] == 0);
}

TEST_CASE("bad ranks are refused by name, value and what is accepted") {
  Group* group = group_of({10, 11, 12});
  Group* made = nullptr;
  const int high[] = {1, 3};
  TestCall first;
  CHECK(body::Group_incl(first, group, 2, ints(high), made) == kErrRank);
  CHECK(says(first, "ranks[1] is 3", "accepted are 0 to 2"));
  const int twice[] = {1, 1};
  TestCall second;
  CHECK(body::Group_excl(second, group, 2, ints(twice), made) == kErrRank);
  CHECK(says(second, "ranks[1] is 1 for the second time"));
  TestCall third;
  CHECK(body::Group_incl(third, group, -1, ints(high), made) == kErrArg);
  CHECK(says(third, "n is -1"));
  const int still[] = {0, 2, 0};
  TestCall fourth;
  CHECK(body::Group_range_incl(fourth, group, 1, ints(still), made) == kErrArg);
  CHECK(says(fourth, "ranges[0]", "stride of 0"));
  CHECK(made == nullptr);
}

TEST_CASE("an info keeps its keys in the order of setting") {
  TestCall call;
  Info* info = nullptr;
  REQUIRE(body::Info_create(call, info) == kSuccess);
  for (const char* key : {"zebra", "ant", "mole"}) {
    CHECK(body::Info_set(call, info, key, std::string(key) + "!") == kSuccess);
  }
  CHECK(body::Info_set(call, info, "zebra", "striped") == kSuccess);
  CHECK(body::Info_delete(call, info, "ant") == kSuccess);
  char key[257];
  int length = 0;
  CHECK(body::Info_get_nthkey(call, info, 1, TextOut(key, sizeof key, &length)) == kSuccess);
  CHECK(std::string(key) == "mole");
  CHECK(text_of(call, info, "zebra", 20) == "striped");
  CHECK(text_of(call, info, "zebra", 3) == "str");
  CHECK(text_of(call, info, "ant", 20) == "-");

  char value[5] = "????";
  int room = 4;
  bool found = false;
  const TextOut out(value, 4, nullptr);
  CHECK(body::Info_get_string(call, info, "zebra", room, out, found) == kSuccess);
  CHECK(std::string(value) == "str");
  CHECK(room == 8);
  room = 0;
  CHECK(body::Info_get_string(call, info, "mole", room, out, found) == kSuccess);
  CHECK(room == 6);

  Info* copy = nullptr;
  CHECK(body::Info_dup(call, info, copy) == kSuccess);
  CHECK(body::Info_free(call, info) == kSuccess);
  int keys = 0;
  CHECK(body::Info_get_nkeys(call, copy, keys) == kSuccess);
  CHECK(keys == 2);

  TestCall missing;
  CHECK(body::Info_delete(missing, copy, "ant") == kErrInfoNoKey);
  CHECK(says(missing, "\"ant\""));
  TestCall lengthy;
  CHECK(body::Info_set(lengthy, copy, std::string(256, 'k'), "v") == kErrInfoKey);
  CHECK(says(lengthy, "256", "255"));
  TestCall empty;
  CHECK(body::Info_set(empty, copy, "", "v") == kErrInfoKey);
  TestCall none;
  CHECK(body::Info_get_nkeys(none, nullptr, keys) == kErrInfo);
  TestCall far;
  CHECK(body::Info_get_nthkey(far, copy, 2, TextOut(key, sizeof key, &length)) == kErrArg);
  CHECK(says(far, "n is 2", "0 to 1"));
}

TEST_CASE("MPI_INFO_ENV knows the program and cannot be changed") {
  Info* info = static_cast<Info*>(process().registry.find(Kind::kInfo, kInfoEnv));
  REQUIRE(info != nullptr);
  TestCall call;
  CHECK(text_of(call, info, "command", 200).find("test_mpi") != std::string::npos);
  TestCall refused;
  CHECK(body::Info_set(refused, info, "command", "other") == kErrInfo);
  Info* made = nullptr;
  std::vector<std::string> texts{"prog", "-x", "5"};
  std::vector<char*> pointers{texts[0].data(), texts[1].data(), texts[2].data(), nullptr};
  int argc = 3;
  char** argv = pointers.data();
  CHECK(body::Info_create_env(call, &argc, &argv, made) == kSuccess);
  CHECK(text_of(call, made, "argv", 20) == "-x 5");
}

TEST_CASE("codes that a program adds have classes and texts, and go in order") {
  TestCall call;
  int error_class = 0;
  int code = 0;
  CHECK(body::Add_error_class(call, error_class) == kSuccess);
  CHECK(error_class >= kFirstUserError);
  CHECK(body::Add_error_code(call, error_class, code) == kSuccess);
  CHECK(process().errors.last_used() == code);
  CHECK(body::Add_error_string(call, code, "out of cheese") == kSuccess);
  char text[512];
  int length = 0;
  CHECK(body::Error_string(call, code, TextOut(text, sizeof text, &length)) == kSuccess);
  CHECK(std::string(text) == "out of cheese");
  CHECK(body::Error_string(call, error_class, TextOut(text, sizeof text, &length)) == kSuccess);
  CHECK(std::string(text).empty());
  int found = 0;
  CHECK(body::Error_class(call, code, found) == kSuccess);
  CHECK(found == error_class);

  TestCall early;
  CHECK(body::Remove_error_class(early, error_class) == kErrArg);
  CHECK(says(early, "1 codes"));
  TestCall with_text;
  CHECK(body::Remove_error_code(with_text, code) == kErrArg);
  CHECK(body::Remove_error_string(call, code) == kSuccess);
  CHECK(body::Remove_error_code(call, code) == kSuccess);
  CHECK(body::Remove_error_class(call, error_class) == kSuccess);
  TestCall gone;
  CHECK(body::Error_class(gone, code, found) == kErrArg);
  CHECK(says(gone, "errorcode is " + std::to_string(code)));
  // What other MPIs' headers name beside MPI's own.
  CHECK(body::Error_class(call, 75, found) == kSuccess);
  CHECK(found == 75);
  CHECK(body::Error_string(call, 75, TextOut(text, sizeof text, &length)) == kSuccess);
  CHECK(length > 0);
  TestCall own;
  CHECK(body::Remove_error_class(own, kErrRank) == kErrArg);
  CHECK(body::Add_error_string(own, kErrRank, "x") == kErrArg);
}

TEST_CASE("each of MPI's classes has its name and a sentence") {
  CHECK(error_name(kErrTruncate) == "MPI_ERR_TRUNCATE");
  CHECK(error_name(kErrValueTooLarge) == "MPI_ERR_VALUE_TOO_LARGE");
  CHECK(error_name(kErrAbi) == "MPI_ERR_ABI");
  for (int code = kSuccess; code <= kErrAbi; ++code) {
    TestCall call;
    int found = -1;
    CHECK(body::Error_class(call, code, found) == kSuccess);
    CHECK(found == code);
    CHECK(process().errors.text(code).size() > error_name(code).size() + 5);
  }
}

namespace {

struct Trail {
  std::vector<std::string> calls;
  int fail_copy = 0;
  int fail_delete = 0;
};

int note_copy(Object*, int, void* state, void* value, void* copy, int* wanted) {
  auto* trail = static_cast<Trail*>(state);
  trail->calls.push_back("copy " + std::to_string(reinterpret_cast<std::intptr_t>(value)));
  *static_cast<void**>(copy) = static_cast<char*>(value) + 100;
  *wanted = 1;
  return trail->fail_copy;
}

int note_delete(Object*, int, void* value, void* state) {
  auto* trail = static_cast<Trail*>(state);
  trail->calls.push_back("delete " + std::to_string(reinterpret_cast<std::intptr_t>(value)));
  return trail->fail_delete;
}

void* number(std::intptr_t n) { return reinterpret_cast<void*>(n); }

}  // namespace

TEST_CASE("attributes are copied in order and deleted in reverse") {
  Trail trail;
  TestCall call;
  int keys[3];
  Comm from;
  Comm to;
  for (int& key : keys) {
    REQUIRE(body::Comm_create_keyval(call, function(note_copy), function(note_delete), key,
                                     &trail) == kSuccess);
  }
  for (const int i : {2, 0, 1}) {
    CHECK(body::Comm_set_attr(call, &from, keys[i], number(i + 1)) == kSuccess);
  }
  CHECK(copy_attributes(call, from, from.attributes, to, to.attributes) == kSuccess);
  CHECK(trail.calls == std::vector<std::string>{"copy 3", "copy 1", "copy 2"});
  void* value = nullptr;
  bool found = false;
  CHECK(body::Comm_get_attr(call, &to, keys[1], &value, found) == kSuccess);
  CHECK(found);
  CHECK(value == number(102));

  // A freed key lives on in its attributes alone.
  const int freed = keys[0];
  CHECK(body::Comm_free_keyval(call, keys[0]) == kSuccess);
  CHECK(keys[0] == kKeyvalInvalid);
  CHECK(body::Comm_get_attr(call, &to, freed, &value, found) == kSuccess);
  CHECK(value == number(101));
  trail.calls.clear();
  CHECK(delete_attributes(call, to, to.attributes) == kSuccess);
  CHECK(trail.calls == std::vector<std::string>{"delete 102", "delete 101", "delete 103"});
  CHECK(body::Comm_delete_attr(call, &from, freed) == kSuccess);
  TestCall refused;
  CHECK(body::Comm_get_attr(refused, &from, freed, &value, found) == kErrKeyval);
}

TEST_CASE("functions of attributes that fail stop what called them") {
  Trail trail;
  TestCall call;
  int key = 0;
  int named = 0;
  Comm from;
  Comm to;
  REQUIRE(body::Comm_create_keyval(call, test_dup_fn, function(note_delete), named, &trail) ==
          kSuccess);
  REQUIRE(body::Comm_create_keyval(call, function(note_copy), function(note_delete), key, &trail) ==
          kSuccess);
  CHECK(body::Comm_set_attr(call, &from, named, number(5)) == kSuccess);
  CHECK(body::Comm_set_attr(call, &from, key, number(6)) == kSuccess);
  trail.fail_copy = kErrOther;
  TestCall copying;
  CHECK(copy_attributes(copying, from, from.attributes, to, to.attributes) == kErrOther);
  CHECK(says(copying, "copy function", "16"));
  CHECK(trail.calls == std::vector<std::string>{"copy 6", "delete 5"});
  CHECK(to.attributes.all().empty());

  trail.fail_delete = kErrIntern;
  TestCall setting;
  CHECK(body::Comm_set_attr(setting, &from, key, number(7)) == kErrIntern);
  void* value = nullptr;
  bool found = false;
  CHECK(body::Comm_get_attr(call, &from, key, &value, found) == kSuccess);
  CHECK(value == number(6));
  TestCall deleting;
  CHECK(body::Comm_delete_attr(deleting, &from, key) == kErrIntern);
  trail.fail_delete = 0;
  CHECK(body::Comm_delete_attr(call, &from, key) == kSuccess);
  TestCall again;
  CHECK(body::Comm_delete_attr(again, &from, key) == kErrKeyval);
}

TEST_CASE("MPI's own attributes are ints that only MPI sets") {
  Comm comm;
  TestCall call;
  void* value = nullptr;
  bool found = false;
  CHECK(body::Comm_get_attr(call, &comm, kTagUb, &value, found) == kSuccess);
  REQUIRE(found);
  CHECK(*static_cast<int*>(value) == kMostTag);
  CHECK(body::Comm_get_attr(call, &comm, kLastUsedCode, &value, found) == kSuccess);
  const int before = *static_cast<int*>(value);
  int error_class = 0;
  CHECK(body::Add_error_class(call, error_class) == kSuccess);
  CHECK(error_class > before);
  CHECK(body::Comm_get_attr(call, &comm, kLastUsedCode, &value, found) == kSuccess);
  CHECK(*static_cast<int*>(value) == error_class);
  CHECK(body::Remove_error_class(call, error_class) == kSuccess);
  TestCall refused;
  CHECK(body::Comm_set_attr(refused, &comm, kTagUb, value) == kErrKeyval);
  CHECK(says(refused, "MPI alone"));
  TestCall of_type;
  int type_key = 0;
  CHECK(body::Type_create_keyval(call, test_dup_fn, test_null_delete_fn, type_key, nullptr) ==
        kSuccess);
  CHECK(body::Comm_set_attr(of_type, &comm, type_key, value) == kErrKeyval);
  CHECK(says(of_type, "a key of datatypes"));
}

namespace {

std::vector<int> handled;

void note_error(Object*, int code) { handled.push_back(code); }

}  // namespace

TEST_CASE("a failure goes to the handler of its communicator, and its text to MPI_Error_string") {
  TestCall call;
  Errhandler* handler = nullptr;
  REQUIRE(body::Comm_create_errhandler(call, function(note_error), handler) == kSuccess);
  Comm comm;
  CHECK(body::Comm_set_errhandler(call, &comm, handler) == kSuccess);
  CHECK(body::Errhandler_free(call, handler) == kSuccess);
  CHECK(handler == nullptr);

  TestCall failing("MPI_Send");
  CHECK(raise(failing, failing.fail(kErrTag, "tag is -7, accepted are 0 to 9"), &comm, nullptr) ==
        kErrTag);
  CHECK(handled == std::vector<int>{kErrTag});
  const std::string text = process().errors.text(kErrTag);
  CHECK(text.find("MPI_ERR_TAG: invalid tag") == 0);
  CHECK(text.find("tag is -7") != std::string::npos);

  CHECK(body::Comm_call_errhandler(call, &comm, kErrOther) == kSuccess);
  CHECK(handled.back() == kErrOther);
  Errhandler* got = nullptr;
  CHECK(body::Comm_get_errhandler(call, &comm, got) == kSuccess);
  CHECK(got == comm.errhandler);
  CHECK(got->uses == 2);
  CHECK(body::Errhandler_free(call, got) == kSuccess);

  Errhandler* of_sessions = nullptr;
  CHECK(body::Session_create_errhandler(call, function(note_error), of_sessions) == kSuccess);
  TestCall refused;
  CHECK(body::Comm_set_errhandler(refused, &comm, of_sessions) == kErrErrhandler);
  CHECK(says(refused, "one of sessions"));

  const auto before = process().registry.count(Kind::kErrhandler);
  auto* returns =
      static_cast<Errhandler*>(process().registry.find(Kind::kErrhandler, kErrorsReturn));
  CHECK(body::Comm_set_errhandler(call, &comm, returns) == kSuccess);
  CHECK(process().registry.count(Kind::kErrhandler) == before - 1);
}
